"""The `headscope` command: `python -m headscope` and the console script."""

from headscope.cli import main

if __name__ == "__main__":
    main()
