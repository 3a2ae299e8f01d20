"""The rules of the house, read from the tree itself.

A checker takes source text or folders and returns what is wrong, one line each. Every checker is
also tried on something that breaks its rule, for a rule that cannot fail is worth nothing.
"""

import ast
import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "headscope"

MAX_FILE, MAX_FUNCTION, MAX_COMMAND, MAX_PARAMETERS = 400, 60, 20, 8
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "misc"}

BASE = ("errors", "shapes")
MAY_IMPORT = {
    "errors": (),
    "shapes": (),
    "schemas": (),
    "results": BASE,
    "datasets": (*BASE, "results"),
    "extraction": (*BASE, "results", "datasets"),
    "probing": (*BASE, "results", "datasets", "extraction"),
    "finetune": (*BASE, "results", "datasets", "extraction", "probing"),
    "visualize": (*BASE, "results"),
    "report": (*BASE, "results", "datasets", "extraction", "probing", "finetune", "visualize"),
}
TOP = (*MAY_IMPORT, "cli", "commands")
"""What cli and commands may import, each other included."""

EXEMPT = ("__init__", "__main__")
"""They may import anything, and nothing imports names from them but the version."""


MODELS = ("torch", "transformers", "tokenizers", "spacy")
FORBIDDEN = {  # third-party packages that a layer does without
    **dict.fromkeys(("errors", "results", "visualize"), MODELS),
    **dict.fromkeys(("datasets", "extraction", "probing", "finetune"), ("plotly",)),
    "datasets": ("plotly", "torch", "transformers", "tokenizers"),
}


def layer_of(path):
    """First part below the package: `headscope/probing/surface.py` -> `probing`."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported(tree):
    """(line, dotted name) of every import, those inside functions and TYPE_CHECKING included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = "." * node.level + (node.module or "")
            if start == "headscope":  # from headscope import results
                yield from ((node.lineno, f"headscope.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, start


def layering_faults(layer, source):
    """Imports that point back, skip the public front door, or are relative."""
    if layer in EXEMPT:
        return []
    is_top = layer in ("cli", "commands")
    allowed = TOP if is_top else (layer, *MAY_IMPORT.get(layer, ()))
    faults = []
    for line, name in imported(ast.parse(source)):
        first, *rest = name.split(".")
        if not first:
            faults.append(f"{line}: relative import {name}")
        elif name == "headscope" and is_top:  # for its version
            continue
        elif first == "headscope" and not {*rest[:1]} & {*allowed, "__version__"}:
            faults.append(f"{line}: {layer} may not import {name}")
        elif first in FORBIDDEN.get(layer, ()):
            faults.append(f"{line}: {layer} does without {first}")
    return faults


def functions(tree):
    """Every function and method, nested ones included."""
    return [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]


def size_faults(source):
    """Files and functions that are too long."""
    n_lines = len(source.splitlines())
    faults = [f"{n_lines} lines, at most {MAX_FILE}"] if n_lines > MAX_FILE else []
    for node in functions(ast.parse(source)):
        length = node.end_lineno - node.lineno + 1
        if length > MAX_FUNCTION:
            faults.append(f"{node.lineno}: {node.name} has {length} lines, at most {MAX_FUNCTION}")
    return faults


def parameters(node):
    """All parameters but self and cls, *args and **kwargs counted as one each."""
    named = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    if named and named[0].arg in ("self", "cls"):
        named = named[1:]
    return [*named, *filter(None, (node.args.vararg, node.args.kwarg))]


def parameter_faults(source, *, is_command=False):
    """Functions with too many parameters.

    The signature of a command is its command line. There, parameters whose annotation is a bare
    name imported from `headscope.cli` or `headscope.commands` do not count: these are the
    arguments and options that commands share (MODEL, DATA, -o, --limit ...). What a command has of
    its own is held to the same number.
    """
    tree = ast.parse(source)
    shared = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith(("headscope.cli", "headscope.commands"))
        for alias in node.names
        if is_command
    }
    faults = []
    for node in functions(tree):
        own = [
            parameter
            for parameter in parameters(node)
            if not (
                isinstance(parameter.annotation, ast.Name) and parameter.annotation.id in shared
            )
        ]
        if len(own) > MAX_PARAMETERS:
            faults.append(f"{node.lineno}: {node.name} has {len(own)} parameters")
    return faults


def command_faults(source):
    """Public functions of `headscope/commands` whose body, docstring left out, is too long."""
    faults = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            length = node.end_lineno - body[0].lineno + 1 if body else 0
            if length > MAX_COMMAND:
                faults.append(f"{node.lineno}: body of {node.name} has {length} lines")
    return faults


def docstring_faults(source):
    """Public modules, classes, functions and methods without a docstring."""
    tree = ast.parse(source)
    faults = [] if ast.get_docstring(tree) or not tree.body else ["1: module without docstring"]
    holders = [tree]
    while holders:
        for node in holders.pop().body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                if node.name.startswith("_"):
                    continue
                if isinstance(node, ast.ClassDef):
                    holders.append(node)
                if ast.get_docstring(node) is None:
                    faults.append(f"{node.lineno}: {node.name} without docstring")
    return faults


def print_faults(source):
    """Calls of print: the package returns, the command line echoes."""
    return [
        f"{node.lineno}: print"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "print"
    ]


def tree_faults(package, tests):
    """Folders with a single module, vague names, modules without their mirrored test file."""
    faults = []
    for folder in (package, *(path for path in package.rglob("*") if path.is_dir())):
        modules = [path for path in folder.glob("*.py") if path.stem not in EXEMPT]
        if len(modules) < 2 and list(folder.glob("*.py")):
            faults.append(f"{folder.relative_to(package)}: {len(modules)} modules, at least 2")
        for path in modules:
            mirror = tests / path.relative_to(package).with_name(f"test_{path.name}")
            if not mirror.is_file():
                faults.append(f"{path.relative_to(package)}: no {mirror.relative_to(tests.parent)}")
    named = [*package.rglob("*"), *tests.rglob("*")]
    vague = VAGUE_NAMES | {f"test_{name}" for name in VAGUE_NAMES}
    return faults + [f"{path}: name a thing by its idea" for path in named if path.stem in vague]


# Written so that this file does not match itself.
PLACES = re.compile(
    r"(?<![\w.~*-])/(?:work|root|home|opt)/"
    r"|\bpypi[.]org|pythonhosted[.]org|registry[.]npmjs|\bdeb[.]debian[.]org|download[.]pytorch",
    re.IGNORECASE,
)


def place_faults(text):
    """Paths of somebody's machine and hosts of package registries."""
    return [
        f"{number}: {found.group()}"
        for number, line in enumerate(text.splitlines(), 1)
        for found in PLACES.finditer(line)
    ]


def python_files(*folders):
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def committed():
    """Files that are, or are about to be, under version control."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def gather(paths, check):
    """All faults of all files, each with its path."""
    return [
        f"{path.relative_to(ROOT)}:{fault}"
        for path in paths
        for fault in check(path, path.read_text(encoding="utf-8"))
    ]


RULES = {
    "layering": lambda path, source: layering_faults(layer_of(path), source),
    "parameters": lambda path, source: parameter_faults(
        source, is_command=layer_of(path) == "commands"
    ),
    "command bodies": lambda path, source: (
        command_faults(source) if layer_of(path) == "commands" else []
    ),
    "docstrings": lambda path, source: docstring_faults(source),
    "no print": lambda path, source: print_faults(source),
}


@pytest.mark.parametrize("rule", RULES)
def test_package_keeps_the_rule(rule):
    assert gather(python_files("headscope"), RULES[rule]) == []


def test_files_and_functions_are_short():
    paths = python_files("headscope", "tests", "benchmarks")
    assert gather(paths, lambda _, source: size_faults(source)) == []


def test_tree_is_mirrored_and_well_named():
    assert tree_faults(PACKAGE, ROOT / "tests") == []


def test_every_part_of_the_package_has_its_place_in_the_layers():
    parts = {layer_of(path) for path in python_files("headscope")} - set(EXEMPT)
    assert parts <= set(TOP)


def test_no_place_of_a_machine_or_registry_is_named():
    faults = []
    for path in committed():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        faults += [f"{path.relative_to(ROOT)}:{fault}" for fault in place_faults(text)]
    assert faults == []


def test_hugging_face_datasets_is_not_shadowed():
    import datasets

    assert callable(datasets.load_dataset)
    assert not Path(datasets.__file__).is_relative_to(PACKAGE)


def test_pre_commit_runs_exactly_what_make_lint_runs():
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    hooks = [hook for repo in config["repos"] for hook in repo["hooks"]]
    assert {repo["repo"] for repo in config["repos"]} == {"local"}
    assert {hook["language"] for hook in hooks} == {"system"}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(r"^lint:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE).group(1)
    commands = [line.strip().replace("$(BIN)", ".venv/bin") for line in recipe.splitlines()]
    assert [hook["entry"] for hook in hooks] == commands
    assert re.search(r"^test: lint pytest\b", makefile, re.MULTILINE)
    assert "make --keep-going test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


LONG = "def f():\n" + "    x = 1\n" * MAX_FUNCTION
NINE = "a, b, c, d, e, f, g, h, i"
COMMAND = f"from headscope.cli import Limit\ndef f({NINE}: Limit): ..."

BROKEN = {
    "import of a later layer": (layering_faults, "datasets", "from headscope.probing import x"),
    "import inside a function": (
        layering_faults, "results", "def f():\n    import headscope.datasets.conllu",
    ),
    "import for type checkers": (
        layering_faults, "extraction", "if TYPE_CHECKING:\n    from headscope.report import x",
    ),
    "import of a sibling": (layering_faults, "visualize", "from headscope import datasets"),
    "import through the front door": (layering_faults, "report", "from headscope import Surface"),
    "import of the whole package": (layering_faults, "report", "import headscope"),
    "import of the entry point": (layering_faults, "commands", "import headscope.__main__"),
    "import from probing to finetune": (layering_faults, "probing", "import headscope.finetune"),
    "import by an unknown part": (layering_faults, "extras", "import headscope.errors"),
    "relative import": (layering_faults, "results", "from . import surface"),
    "relative import of a module": (layering_faults, "results", "from .surface import x"),
    "torch in figures": (layering_faults, "visualize", "from torch import Tensor"),
    "plotly in probes": (layering_faults, "probing", "import plotly.graph_objects as go"),
    "long file": (size_faults, "x = 1\n" * (MAX_FILE + 1)),
    "long function": (size_faults, LONG),
    "long method": (size_faults, "class A:\n" + "".join(f"    {x}\n" for x in LONG.splitlines())),
    "nine parameters": (parameter_faults, f"def f({NINE}): ..."),
    "nine keywords": (parameter_faults, f"class A:\n    async def f(self, *, {NINE}): ..."),
    "nine with a star": (parameter_faults, "def f(a, b, c, d, e, f, g, *h, **i): ..."),
    "shared names outside commands": (parameter_faults, COMMAND),
    "long command": (command_faults, "def f():\n" + "    x = 1\n" * (MAX_COMMAND + 1)),
    "module without docstring": (docstring_faults, "x = 1"),
    "function without docstring": (docstring_faults, '"""M."""\ndef f(): ...'),
    "class without docstring": (docstring_faults, '"""M."""\nclass A: ...'),
    "method without docstring": (docstring_faults, '"""M."""\nclass A:\n "A."\n def f(self): ...'),
    "print": (print_faults, "def f():\n    print(1)"),
    "home": (place_faults, "see " + "/ho" + "me/me/x"),
    "work folder in quotes": (place_faults, '"' + "/wo" + 'rk/main"'),
    "registry": (place_faults, "--index-url https://" + "pypi." + "org/simple"),
}  # fmt: skip

KEPT = {
    "own layer and lower ones": (
        layering_faults, "probing", "import headscope.probing.x\nfrom headscope import errors",
    ),
    "version": (layering_faults, "report", "from headscope import __version__"),
    "front door may import all": (layering_faults, "__init__", "import headscope.report"),
    "cli and commands know each other": (
        layering_faults, "cli", "import headscope\nimport headscope.commands, headscope.report",
    ),
    "other packages named alike": (layering_faults, "results", "import datasets, headscopes"),
    "longest file": (size_faults, "x = 1\n" * MAX_FILE),
    "longest function": (size_faults, LONG.removesuffix("    x = 1\n")),
    "eight parameters": (parameter_faults, f"class A:\n    def f(self, {NINE[:-3]}): ..."),
    "shared options": (lambda source: parameter_faults(source, is_command=True), COMMAND),
    "longest command": (
        command_faults, 'def f():\n    """F."""\n' + "    x = 1\n" * MAX_COMMAND,
    ),
    "private function": (docstring_faults, '"""M."""\ndef _f(): ...'),
    "path of a web page": (place_faults, "https://example.com/home/x ~/notes/x ./opt/x"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_checker_finds(name):
    check, *arguments = BROKEN[name]
    assert len(check(*arguments)) == 1


@pytest.mark.parametrize("name", KEPT)
def test_checker_lets_pass(name):
    check, *arguments = KEPT[name]
    assert check(*arguments) == []


def test_checker_of_the_tree_finds_each_fault(tmp_path):
    package, tests = tmp_path / "headscope", tmp_path / "tests"
    for name in ("a/__init__.py", "a/lonely.py", "b.py", "c.py", "schemas/x.json"):
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for name in ("a/test_lonely.py", "test_b.py", "test_c.py"):
        path = tests / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert tree_faults(package, tests) == ["a: 1 modules, at least 2"]
    (tests / "test_c.py").unlink()
    (package / "a" / "utils.py").touch()
    (tests / "a" / "test_utils.py").touch()
    found = "\n".join(tree_faults(package, tests))
    assert "c.py: no tests/test_c.py" in found
    assert found.count("name a thing by its idea") == 2
    assert "at least 2" not in found
