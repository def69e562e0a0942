"""No value of a record in any message: exceptions, warnings, logs, receipts, standard output and error.

Every record carries the digits 8675309 in each of its numbers. They are fed through every failure there is, and looked for in
everything that comes out. There is no randomness that matters: a released value holds the seven digits by chance about once
in 10^5 runs, so released values are taken out before searching.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import every_manifold, longer, random_points
from typer.testing import CliRunner

from geodp import SPD, Ball, Euclidean, Ledger, Manifold, Product, Sphere, frechet_mean, private_mean
from geodp.cli import app
from geodp.files import FileError, parse_center, read_records
from geodp.inputs import Array
from geodp.privacy.ledger import LedgerError

SECRET = "8675309"
#: The digits at every size, as they may be printed in full, in scientific notation or after rounding.
NUMBERS = [8675309.0, 0.8675309, 86753.09, 8.675309e-5, 8.675309e200, -8675309.0, 1.8675309]
NORTH = Ball(Sphere(2), [0.0, 0.0, 1.0], 0.5)


def secret_records(*shape: int) -> Array:
    return np.resize(np.array(NUMBERS), shape)


def secret_points(manifold: Manifold, size: int = 20) -> Array:
    """Valid points whose entries hold the digits where the manifold leaves that open."""
    match manifold:
        case SPD():
            return np.stack([np.diag(np.roll(np.abs(secret_records(manifold.k)), i) % 7.0 + 0.8675309) for i in range(size)])
        case Sphere(d=2):
            return np.tile([0.8675309, 0.0, np.sqrt(1.0 - 0.8675309**2)], (size, 1))
    return secret_records(size, *manifold.point_shape)


def is_silent(text: str) -> bool:
    """Whether the digits do not occur, not even across a decimal point or a group of thousands."""
    bare = text.replace(".", "").replace(",", "").replace("_", "").replace(" ", "")
    return not any(part in bare for part in (SECRET, "867530", "867531"))


def test_the_search_finds_what_it_looks_for() -> None:
    for text in ("x = 8675309.0", "[0.8675309 1.]", "8.67531e-05", "86,753.09", "8_675_309"):
        assert not is_silent(text)
    assert is_silent("n = 20, epsilon = 0.5")


@pytest.fixture
def listening(caplog: pytest.LogCaptureFixture) -> Callable[[Callable[[], object]], BaseException | None]:
    """Runs something; everything it says or raises must be silent about the records."""

    def listen(action: Callable[[], object]) -> BaseException | None:
        raised: BaseException | None = None
        caplog.set_level(logging.DEBUG)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                action()
            except Exception as error:
                raised = error
        if raised is not None:
            for text in (str(raised), repr(raised), repr(raised.args), "".join(traceback.format_exception_only(raised))):
                assert is_silent(text), text
            # what a user sees of the chain: the sentences, not the lines of the test
            chain: BaseException | None = raised
            while chain is not None:
                assert is_silent(str(chain)), chain
                chain = chain.__cause__ or (None if chain.__suppress_context__ else chain.__context__)
        for warning in warned:
            assert is_silent(str(warning.message)), warning
        assert is_silent(caplog.text)
        return raised

    return listen


Listen = Callable[[Callable[[], object]], BaseException | None]


# ---------------------------------------------------------------------- the library


@every_manifold
def test_a_receipt_holds_no_record(manifold: Manifold, listening: Listen) -> None:
    ball = Ball(manifold, manifold.origin, 0.3 * min(1.0, Ball(manifold, manifold.origin, 1e-3).max_radius))
    x = secret_records(20, *manifold.point_shape)

    def release() -> None:
        done = private_mean(x, ball, 20.0)
        stored = json.loads(done.to_json())
        stored.pop("value")
        assert is_silent(json.dumps(stored))
        assert is_silent("\n".join(line for line in str(done).splitlines() if "=" in line or "records" in line))

    assert listening(release) is None


def raising(error: Exception) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


X = secret_records(20, 3)
BAD_CALLS: dict[str, Callable[[], object]] = {
    "epsilon": lambda: private_mean(X, NORTH, 0.0),
    "shape": lambda: private_mean(secret_records(20, 4), NORTH, 1.0),
    "one record": lambda: private_mean(X[0], NORTH, 1.0),
    "number": lambda: private_mean(8675309.0, NORTH, 1.0),
    "texts": lambda: private_mean(X.astype(str), NORTH, 1.0),
    "list of texts": lambda: private_mean([["8675309x", "y", "z"]], NORTH, 1.0),
    "objects": lambda: private_mean(X.astype(object), NORTH, 1.0),
    "None among numbers": lambda: private_mean([[8675309.0, None, 1.0]], NORTH, 1.0),
    "ragged": lambda: private_mean([[8675309.0, 1.0], [8675309.0, 1.0, 2.0]], NORTH, 1.0),
    "complex": lambda: private_mean(X + 8675309j, NORTH, 1.0),
    "dictionary": lambda: private_mean({"8675309": X}, NORTH, 1.0),
    "text": lambda: private_mean("8675309", NORTH, 1.0),
    "iterator": lambda: private_mean(iter([X]), NORTH, 1.0),
    "chunks of another shape": lambda: private_mean([X, secret_records(20, 4)], NORTH, 1.0),
    "long integers": lambda: private_mean([[8675309 * 10**400, 0, 1]], NORTH, 1.0),
    "longdouble": lambda: private_mean(X.astype(np.longdouble) * np.longdouble("1e4000"), NORTH, 1.0),
    "wrong manifold": lambda: private_mean(secret_records(20, 3, 3), Ball(SPD(2), np.eye(2), 1.0), 1.0),
    "no law": lambda: private_mean(secret_records(2, 3, 3), Ball(SPD(3), np.eye(3), 1.0), 1.0, mechanism="intrinsic"),
    "bound": lambda: private_mean(X, NORTH, 1.0, bound="blunt"),
    "no ledger": lambda: private_mean(X, NORTH, 1.0, dataset="d"),
    "simulated": lambda: private_mean(X, NORTH, 1.0, simulate=7),
    "tolerance": lambda: frechet_mean(secret_points(SPD(3)), Ball(SPD(3), np.eye(3), 2.0), tolerance=1e-30),
    "weights": lambda: frechet_mean(X, NORTH, weights=-secret_records(20)),
    "few weights": lambda: frechet_mean(X, NORTH, weights=np.abs(secret_records(3))),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_no_failure_of_a_release_quotes_a_record(case: str, listening: Listen) -> None:
    raised = listening(BAD_CALLS[case])
    assert raised is not None or case == "longdouble"


@pytest.mark.parametrize("manifold", [Sphere(2), SPD(2), SPD(3), Euclidean(3), Product(Sphere(2), Euclidean(3))], ids=repr)
def test_no_data_set_makes_a_release_talk(manifold: Manifold, listening: Listen) -> None:
    ball = Ball(manifold, manifold.origin, 0.5)
    for x in (secret_points(manifold), secret_records(20, *manifold.point_shape), 1e-310 * secret_points(manifold)):
        assert listening(lambda x=x: private_mean(x, ball, 20.0)) is None


def test_no_failure_of_the_ledger_quotes_a_record(tmp_path: Path, listening: Listen, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/budget.db"
    ledger = Ledger(url, timeout=0.1)
    x = secret_points(Sphere(2))

    def spend(epsilon: float = 0.5, dataset: str = "d") -> None:
        private_mean(x, NORTH, epsilon, ledger=ledger, dataset=dataset)

    assert listening(spend) is not None, "no ledger yet"
    ledger.open("d", 1)
    assert listening(lambda: spend(dataset="e")) is not None
    assert listening(lambda: spend(epsilon=2.0)) is not None
    with closing(sqlite3.connect(tmp_path / "budget.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert listening(spend) is not None
        other.execute("ROLLBACK")
    # the receipt cannot be attached: the value was drawn and paid for, so it is returned, and the warning is silent about it
    for error in (RuntimeError("8675309 is gone"), LedgerError("the disk is full: see 8675309")):
        monkeypatch.setattr(Ledger, "attach", raising(error))
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            release = private_mean(x, NORTH, 0.25, ledger=ledger, dataset="d")
        (text,) = [str(warning.message) for warning in warned]
        assert is_silent(text), text
        assert not any(repr(float(entry)) in text for entry in release.value)
    with closing(sqlite3.connect(tmp_path / "budget.db")) as other:
        other.execute("DROP TABLE geodp_charge")
        other.commit()
    assert listening(spend) is not None
    (tmp_path / "budget.db").write_bytes(b"no ledger at all" * 100)
    assert listening(spend) is not None


DRAWS = ["release._draw", "noise.exact.sample", "noise.tangent.TangentMechanism.coordinates"]


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("statistics.mean.Mean.compute", RuntimeError),
        *((place, kind) for place in DRAWS for kind in (RuntimeError, ValueError)),
    ],
)
def test_a_failure_inside_loses_its_text_which_may_quote_data(
    place: str, kind: type[Exception], listening: Listen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ``ValueError`` of the mean is about public things, such as the number of records; one of the draw cannot be."""
    monkeypatch.setattr(f"geodp.{place}", raising(kind("record 8675309 broke it")))
    raised = listening(lambda: private_mean(secret_points(Sphere(2)), NORTH, 1.0, mechanism="tangent"))
    assert str(raised) == f"the release failed with {kind.__name__}; its text is hidden because it may hold data"
    assert not getattr(raised, "__notes__", [])


class Quoting:
    """Records behind somebody's code, which fails after so many passes and quotes one of them."""

    def __init__(self, error: BaseException, passes: int = 0) -> None:
        self.error, self.passes = error, passes

    def read(self) -> Iterator[Any]:
        yield secret_points(Sphere(2))
        if self.passes == 0:
            raise self.error
        self.passes -= 1


class QuotingIterable(Quoting):
    def __iter__(self) -> Iterator[Any]:
        return self.read()


class QuotingSequence(Quoting, Sequence[Any]):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: Any) -> Any:
        raise self.error


class QuotingArray(Quoting):
    def __array__(self, *_: object, **__: object) -> Array:
        raise self.error


class QuotingList(list[Any]):
    def __init__(self, error: BaseException) -> None:
        super().__init__(secret_points(Sphere(2)))
        self.error = error

    def __iter__(self) -> Iterator[Any]:
        raise self.error


class QuotingObject:
    def __init__(self, error: BaseException) -> None:
        self.__dict__["error"] = error

    def __getattr__(self, name: str) -> Any:
        raise self.__dict__["error"]


class Panic(BaseException):
    """What a library in another language raises where no program should go on."""


SECOND_PASS = "generator, in the second pass"
QUOTING: dict[str, Callable[[BaseException], Any]] = {
    "generator": lambda error: Quoting(error).read,
    SECOND_PASS: lambda error: Quoting(error, passes=1).read,
    "function": raising,
    "iterable": QuotingIterable,
    "sequence": QuotingSequence,
    "array": QuotingArray,
    "function that yields such arrays": lambda error: lambda: iter([QuotingArray(error)]),
    "iterable of such arrays": lambda error: {QuotingArray(error): 1}.keys(),
    "list of such arrays": lambda error: [QuotingArray(error)] * 2,
    "kind of list": QuotingList,
    "object whose attributes fail": QuotingObject,
}
#: Asked what they are before anybody knows what they are for.
HIDDEN = ("sequence", "object whose attributes fail")


@pytest.mark.parametrize(
    "kind", [ValueError, KeyError, RuntimeError, TypeError, OSError, MemoryError, np.linalg.LinAlgError, Panic, SystemExit]
)
@pytest.mark.parametrize("source", QUOTING)
def test_the_text_of_an_exception_of_somebodys_reader_is_lost_and_its_kind_is_told(
    source: str, kind: type[BaseException], listening: Listen, tmp_path: Path
) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open("d", 1)
    x = QUOTING[source](kind("record 8675309 is odd"))
    raised = listening(lambda: private_mean(x, NORTH, 1.0, ledger=ledger, dataset="d"))
    assert isinstance(raised, ValueError)
    assert str(raised).startswith(f"reading the records failed with {kind.__name__}; its text is hidden because it may hold data")
    assert ledger.spent("d") == 0
    if source != SECOND_PASS:  # the curator's own mean is not private, and there the text helps
        shown = "because it may hold data" if source in HIDDEN else "8675309"
        with pytest.raises(ValueError if source in HIDDEN else kind, match=shown):
            frechet_mean(QUOTING[source](kind("record 8675309 is odd")), NORTH)


def test_methods_of_a_kind_of_array_are_not_called() -> None:
    class Odd(np.ndarray):
        def __getitem__(self, index: Any) -> Any:
            raise ValueError("record 8675309 is odd")

    release = private_mean(secret_points(Sphere(2)).view(Odd), NORTH, 1.0)
    assert release.n == len(secret_points(Sphere(2)))


@pytest.mark.parametrize("value", [1e-170, 1e-320, 1e170, 1e308, np.inf, np.nan])
@every_manifold
def test_where_floating_point_errors_raise_no_record_makes_a_release_fail(manifold: Manifold, value: float) -> None:
    x = random_points(manifold, 20, np.random.default_rng(0), 0.05)
    ball = Ball(manifold, manifold.origin, 0.1)
    x[7] = value
    with np.errstate(all="raise"):
        assert private_mean(x, ball, 500.0).n == 20


def test_what_the_librarys_own_readers_say_is_public_and_shown(tmp_path: Path) -> None:
    def read() -> Iterator[Any]:
        yield read_records(tmp_path / "no.csv", Sphere(2))

    with pytest.raises(FileError, match=r"^there is no file .*no\.csv$"):
        private_mean(read, NORTH, 1.0)


def test_an_interrupt_while_reading_is_an_interrupt() -> None:
    def read() -> Iterator[Any]:
        yield secret_points(Sphere(2))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        private_mean(read, NORTH, 1.0)


@pytest.mark.parametrize("chunk", [np.zeros((5, 4)), np.ma.masked_invalid(np.zeros((5, 3)))], ids=["shape", "mask"])
def test_what_the_library_says_of_a_chunk_is_not_taken_for_the_readers(chunk: Array) -> None:
    with pytest.raises((ValueError, TypeError), match=r"x has shape \(5, 4\)|x is a masked array"):
        private_mean(lambda: iter([chunk]), NORTH, 1.0)


@pytest.mark.parametrize("name", ["PrivateFrechetMean", "PrivateTangentSpace", "PrivateMDM", "PrivateKMeans"])
def test_no_failure_of_an_estimator_quotes_a_record(name: str, listening: Listen) -> None:
    pytest.importorskip("sklearn", reason="the estimators need scikit-learn")
    from geodp import estimator

    model = getattr(estimator, name)(manifold="Sphere(2)", radius=0.5, epsilon=1.0)
    if name == "PrivateMDM":
        model.set_params(labels="private", classes=["a", "b"])
        for y in (["8675309"] * 19, np.full((20, 2), 8675309.0), QuotingArray(ValueError("8675309"))):
            assert listening(lambda y=y: model.fit(secret_points(Sphere(2)), y)) is not None
    y = ["a"] * 20
    for x in (secret_records(20, 4), secret_records(20), X.astype(str), X.astype(object), X + 1j, [[8675309.0], [1.0, 2.0]]):
        assert listening(lambda x=x: model.fit(x, y)) is not None
    assert listening(lambda: model.fit(QuotingArray(ValueError("8675309")), y)) is not None
    assert listening(lambda: model.transform(X)) is not None
    records = secret_points(Sphere(2))
    model.fit(records, ["a"] * len(records))
    assert listening(lambda: model.transform(secret_records(20, 4))) is not None
    assert is_silent(repr(model))


# ---------------------------------------------------------------------- files


def bad_files(folder: Path) -> list[Path]:
    """Files with the digits in every cell, each wrong in another way."""
    texts = {
        "ragged.csv": "8675309,0.8675309\n8675309\n8675309,1,2,3\n" * 3,
        "words.csv": "8675309a,8675309b\n8675309c,8675309d\n" * 3,
        "header.csv": "x,y\n" + "8675309,86753.09\n" * 9,
        "short_header.csv": "x,y\n" + "8675309,1,8.675309\n" * 9,
        "quotes.csv": '"8675309,"8675309"",x\n' * 5,
        "one_line.csv": "8675309 8675309 8675309 8675309 8675309\n",
        "times.csv": "time\n86:75:309\n8675309\n",
        "nul.csv": "8675309\0,8675309\n" * 4,
        "junk.npy": "8675309" * 30,
        "junk.npz": "8675309" * 30,
        "junk.parquet": "PAR18675309" * 30 + "PAR1",
        "unknown.txt": "8675309\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "latin.csv").write_bytes(b"8675309,\xff\xfe\xe4\n" * 5)
    np.save(folder / "shape.npy", secret_records(5, 7))
    np.save(folder / "cube.npy", secret_records(5, 4, 4))
    np.save(folder / "pickled.npy", np.array([{"secret": 8675309}, "8675309"], dtype=object), allow_pickle=True)
    np.save(folder / "complex.npy", secret_records(5, 3) + 8675309j)
    np.save(folder / "texts.npy", secret_records(5, 3).astype(str))
    np.save(folder / "structured.npy", np.array([(8675309.0, 1)], dtype=[("a", float), ("b", int)]))
    np.save(folder / "none.npy", secret_records(0, 3))
    np.savez(folder / "two.npz", a=secret_records(5, 3), b=secret_records(5, 3))
    whole = (folder / "shape.npy").read_bytes()
    (folder / "cut.npy").write_bytes(whole[: len(whole) // 2])
    try:
        import pandas

        pandas.DataFrame({"a": ["8675309"] * 4, "b": ["x8675309"] * 4}).to_parquet(folder / "texts.parquet")
        pandas.DataFrame({"a": secret_records(5), "b": secret_records(5)}).to_parquet(folder / "narrow.parquet")
        pandas.DataFrame({"a": [b"8675309"] * 4}).to_parquet(folder / "bytes.parquet")
    except ImportError:  # then there are no Parquet files to be misread
        pass
    return sorted(folder.iterdir())


FILE_MANIFOLDS = [Sphere(1), Sphere(4), SPD(3), Euclidean(2)]


def test_no_file_is_quoted_whatever_is_wrong_with_it(tmp_path: Path, listening: Listen) -> None:
    failures = 0
    for path in bad_files(tmp_path):
        for manifold in FILE_MANIFOLDS:
            failures += listening(lambda path=path, manifold=manifold: read_records(path, manifold)) is not None
            # a file of records given as the centre by mistake
            failures += listening(lambda path=path, manifold=manifold: parse_center(path, manifold)) is not None
    assert failures > 100


# ---------------------------------------------------------------------- the command line


def said_by(*arguments: object) -> str:
    """All that a command prints, less the value it releases."""
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return str(result.output) if result.exit_code else ""


@pytest.mark.parametrize("manifold", longer(FILE_MANIFOLDS, FILE_MANIFOLDS[:1]), ids=repr)
def test_the_command_line_quotes_no_file(manifold: Manifold, tmp_path: Path) -> None:
    spoken = 0
    for path in bad_files(tmp_path):
        for command in (["mean", path, "-e", 50], ["check", path], ["mean", path, "-e", 50, "--center", path]):
            text = said_by(*command, "-m", manifold, "-r", 0.3)
            assert is_silent(text), text
            spoken += bool(text)
    assert spoken > 30


def test_the_command_line_quotes_no_record_when_public_input_is_bad(tmp_path: Path) -> None:
    path, url = tmp_path / "x.npy", f"sqlite:///{tmp_path}/budget.db"
    np.save(path, secret_points(Sphere(2)))
    Ledger(url).open("d", 1)
    good = {"-m": "Sphere(2)", "-r": 0.5, "-e": 0.5}
    for wrong in (
        {"-m": "Sfere(2)"},
        {"-m": "SPD(3)"},
        {"-r": 2.0},
        {"-e": 0},
        {"-e": "nan"},
        {"-c": "[1, 1, 1]"},
        {"-c": path},
        {"--layout": "polar"},
        {"--bound": "blunt"},
        {"--ledger": url},
        {"--ledger": url, "--dataset": "e"},
        {"--ledger": url, "--dataset": "d", "-e": 7},
        {"--ledger": f"sqlite:///{path}", "--dataset": "d"},
        {"--out": tmp_path / "no" / "where.json"},
    ):
        text = said_by("mean", path, *(part for pair in {**good, **wrong}.items() for part in pair))
        assert text
        assert is_silent(text), text
    assert Ledger(url).spent("d") == 0


def test_check_names_rows_and_no_values(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", secret_records(30, 3))
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["check", str(tmp_path / "x.npy"), "-m", "Sphere(2)", "-r", "0.5"])
    assert result.exit_code == 0
    assert is_silent(result.output)


#: Breaks one function, in a way that quotes the records, and runs the command line as its users do.
BROKEN = """
import importlib, sys
module, name = sys.argv.pop(1), sys.argv.pop(1)
kind = {"RuntimeError": RuntimeError, "KeyError": KeyError}[sys.argv.pop(1)]
import numpy as np
def broken(*given, **named):
    held = [part for part in (*given, *named.values()) if isinstance(part, np.ndarray)]
    raise kind(f"this went wrong with {held[0].ravel()[:3].tolist() if held else 0}")
setattr(importlib.import_module(module), name, broken)
from geodp.cli import app
app()
"""


@pytest.mark.parametrize(
    ("module", "name", "kind"),
    [
        ("geodp.release", "_draw", "RuntimeError"),
        pytest.param("geodp.noise.exact", "sample", "KeyError", marks=pytest.mark.slow),
    ],
)
def test_an_unforeseen_failure_shows_nothing_of_the_records(module: str, name: str, kind: str, tmp_path: Path) -> None:
    """As it happens in a terminal: no traceback, whose lines and variables may hold records, and no text of the exception."""
    np.save(tmp_path / "x.npy", secret_points(Sphere(2)))
    (tmp_path / "broken.py").write_text(BROKEN)
    command = [sys.executable, "broken.py", module, name, kind, "mean", "x.npy", "-m", "Sphere(2)", "-r", "0.95", "-e", "50"]
    environment = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode != 0
    assert done.stdout == ""
    assert done.stderr
    assert is_silent(done.stderr), done.stderr
    assert "Traceback" not in done.stderr


def test_tracebacks_of_the_command_line_never_show_local_variables() -> None:
    """Typer before 0.23 shows them unless told not to."""
    assert not app.pretty_exceptions_show_locals
