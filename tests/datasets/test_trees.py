import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from headscope.datasets.trees import tree_fault


@given(st.integers(1, 8).flatmap(lambda n: st.lists(st.integers(0, n), min_size=n, max_size=n)))
def test_agrees_with_networkx(heads):
    graph = nx.DiGraph((head, word) for word, head in enumerate(heads, 1))
    graph.add_nodes_from(range(len(heads) + 1))
    is_tree = nx.is_arborescence(graph) and heads.count(0) == 1
    assert (tree_fault(heads) is None) == is_tree


def test_names_the_words_of_the_cycle_only():
    fault = tree_fault([0, 3, 4, 5, 3, 2])  # 2 and 6 lead into the cycle of 3, 4 and 5
    assert fault.words == (3, 4, 5)
    assert "cycle" in fault.found


def test_names_every_root():
    assert tree_fault([0, 1, 0, 0]).words == (1, 3, 4)
    assert tree_fault([2, 1]).found == "no root"


def test_a_very_deep_tree_is_a_tree():
    assert tree_fault(range(100_000)) is None
