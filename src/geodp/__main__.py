"""``python -m geodp``: the command line, where its script is not on the path."""

from geodp.cli import main

if __name__ == "__main__":
    main()
