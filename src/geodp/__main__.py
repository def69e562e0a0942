"""``python -m geodp``: the command line, where its script is not on the path."""

from geodp.cli import app

if __name__ == "__main__":  # processes of a study import this module, too
    app(prog_name="geodp")
