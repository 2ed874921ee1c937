"""Many keys at once, in every form that keys come in."""

import array
import threading

import numpy
import pandas
import polars
import pyarrow
import pytest

from twiceshy import Filter

NAMES = ["alice", "böb", "", "carol with a longer name", "日本", "\U0001f600 four bytes", "a\0b"]
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


def of(keys) -> Filter:
    """A filter that was told the keys one by one."""
    seen = Filter(100_000, secret=bytes(16))
    for key in keys:
        seen.add(key)
    return seen


def same(keys, one_by_one) -> None:
    """A batch adds and finds what single calls do."""
    expected = of(one_by_one)
    seen = of([])
    assert seen.add_many(keys) == len(expected)
    assert seen == expected
    answers = seen.contains_many(keys)
    assert len(answers) == len(one_by_one) and all(answers)
    others = of([f"other {n}" for n in range(len(one_by_one))])
    assert list(others.contains_many(keys)) == [key in others for key in one_by_one]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers(dtype):
    limits = numpy.iinfo(dtype)
    step = max((limits.max - limits.min) // 9_999, 1)
    keys = numpy.array(list(range(limits.min, limits.max, step))[:10_000], dtype)
    same(keys, keys.tolist())
    same(keys[::3], keys[::3].tolist())
    same(keys[::-1], keys[::-1].tolist())
    same(keys.byteswap().view(keys.dtype.newbyteorder()), keys.tolist())
    same(keys[:0], [])


def test_answers_have_the_form_of_the_question():
    seen = of(range(10))
    answers = seen.contains_many(numpy.arange(5, 15))
    assert answers.dtype == bool and answers.tolist() == [n in seen for n in range(5, 15)]
    answers[0] = False
    assert seen.contains_many(pyarrow.array([1, 2])).dtype == bool
    assert seen.contains_many(polars.Series([1, 2])).dtype == bool
    assert seen.contains_many(array.array("q", [1, 2])) == [True, True]
    assert seen.contains_many((1, 2)) == [True, True]
    assert seen.contains_many(iter([])) == []
    assert seen.contains_many({1: 2}) == [True]
    assert seen.contains_many(range(3)) == [True] * 3


def test_fixed_width_text_and_bytes():
    # numpy itself cannot tell zeros at the end of a bytes from its padding.
    same(numpy.array(NAMES), NAMES)
    same(numpy.array(NAMES)[::-2], NAMES[::-2])
    encoded = [name.encode() for name in NAMES]
    same(numpy.array(encoded), encoded)
    same(numpy.array(NAMES, "U30"), NAMES)
    same(numpy.array(NAMES, ">U30"), NAMES)
    same(numpy.array(["", ""]), ["", ""])
    same(numpy.array(NAMES, object), NAMES)


def test_not_unicode():
    wrong = numpy.array(["a", "b"]).view("uint32")
    wrong[1] = 0xD800
    with pytest.raises(ValueError):
        of([]).contains_many(wrong.view("U1"))


@pytest.mark.parametrize(
    "column",
    [
        pandas.Series(NAMES),
        pandas.Series(NAMES, dtype="string"),
        pandas.Index(NAMES),
        polars.Series(NAMES),
        pyarrow.array(NAMES),
        pyarrow.array(NAMES, pyarrow.large_string()),
        pyarrow.array(NAMES, pyarrow.string_view()),
        pyarrow.chunked_array([NAMES[:3], [], NAMES[3:]]),
        pyarrow.array(NAMES)[0:],
    ],
    ids=lambda column: f"{type(column).__module__.split('.')[0]}-{type(column).__name__}",
)
def test_columns_of_text(column):
    same(column, NAMES)


def test_columns_of_other_types():
    numbers = list(range(-5, 1000))
    same(pandas.Series(numbers), numbers)
    same(polars.Series(numbers), numbers)
    same(pyarrow.array(numbers), numbers)
    same(pyarrow.array(numbers)[10:20], numbers[10:20])
    same(pyarrow.array([b"a", b"bc"]), [b"a", b"bc"])
    same(polars.Series(["some", "text"] * 20)[3:9], (["some", "text"] * 20)[3:9])
    for column in [pyarrow.array([1.5]), polars.Series([1.5]), pandas.Series([1.5])]:
        with pytest.raises(TypeError, match="float|double"):
            of([]).contains_many(column)


#: How a column of names or of numbers is laid out, as pyarrow calls it.
LAYOUTS = ["string", "large_string", "string_view", "binary", "large_binary", "binary_view", *INTEGERS]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_columns_are_read_in_place(layout):
    if layout in INTEGERS:
        limits = numpy.iinfo(layout)
        keys = [limits.min, limits.max, *range(90)]
    else:
        keys = [name.encode() if "binary" in layout else name for name in NAMES]
    column = pyarrow.array(keys, getattr(pyarrow, layout)())

    class Opaque:
        """Nothing but the capsules: a conversion would fail."""

        def __init__(self, column):
            if hasattr(column, "__arrow_c_array__"):
                self.__arrow_c_array__ = column.__arrow_c_array__
            else:
                self.__arrow_c_stream__ = column.__arrow_c_stream__

    same(Opaque(column), keys)
    same(Opaque(column[2:5]), keys[2:5])
    same(Opaque(column[:0]), [])
    same(Opaque(pyarrow.chunked_array([column, column[:0], column[1:]])), keys + keys[1:])
    with_null = pyarrow.array([*keys, None, keys[0]], column.type)
    same(Opaque(with_null[: len(keys)]), keys)
    for nulls in [with_null, pyarrow.chunked_array([with_null])]:
        with pytest.raises(TypeError, match=f"item {len(keys)} of the column is null"):
            of([]).contains_many(Opaque(nulls))


def test_columns_that_lie_are_refused():
    # Offsets that go back, and a view of a buffer that is not there.
    offsets = pyarrow.py_buffer(array.array("i", [0, 3, 1]))
    back = pyarrow.Array.from_buffers(pyarrow.string(), 2, [None, offsets, pyarrow.py_buffer(b"abc")])
    view = pyarrow.py_buffer(array.array("i", [20, 0, 7, 0]))
    nowhere = pyarrow.Array.from_buffers(pyarrow.string_view(), 1, [None, view])
    long = pyarrow.py_buffer(array.array("i", [20, 0, 0, 5]))
    data = pyarrow.py_buffer(b"only twenty bytes...")
    beyond = pyarrow.Array.from_buffers(pyarrow.string_view(), 1, [None, long, data])
    for column in [back, nowhere, beyond]:
        with pytest.raises(ValueError, match="not where its offset says"):
            of([]).contains_many(column)


def test_columns_that_have_to_be_converted():
    names = ["a", "b", "a"]
    same(pyarrow.array(names).dictionary_encode(), names)
    same(polars.Series(names, dtype=polars.Categorical), names)
    same(pandas.Series(names, dtype="category"), names)
    same(pandas.Series(["a", 7], dtype=object), ["a", 7])
    same(pandas.Series([1, 2], dtype="Int64"), [1, 2])
    for column in [pandas.Series([1, None], dtype="Int64"), pandas.Series(["a", None], dtype="string")]:
        with pytest.raises(TypeError, match="item 1 of the column is null"):
            of([]).contains_many(column)


def test_wrong_arrays():
    seen = of([])
    for keys, name in [(numpy.zeros(3), "float"), (numpy.zeros(3, bool), "bool")]:
        with pytest.raises(TypeError, match=f"not {name}"):
            seen.add_many(keys)
    with pytest.raises(TypeError, match="not datetime.date"):
        seen.add_many(numpy.zeros(3, "datetime64[s]").astype("datetime64[D]").astype(object))
    with pytest.raises(ValueError, match="one dimension, not 2"):
        seen.add_many(numpy.zeros((2, 2), int))
    with pytest.raises(TypeError, match="compressed"):
        seen.add_many(numpy.ma.array([1, 2], mask=[False, True]))
    with pytest.raises(TypeError, match="0-d array"):
        seen.contains_many(numpy.array(7))


def test_a_list_that_shrinks_meanwhile():
    seen, keys = of([]), [str(n) for n in range(200_000)]
    stop = threading.Event()

    def shrink() -> None:
        while keys and not stop.is_set():
            keys.pop()

    thread = threading.Thread(target=shrink)
    thread.start()
    try:
        seen.add_many(keys)
    finally:
        stop.set()
        thread.join()
    assert all(seen.contains_many(keys))


def test_a_length_is_not_believed():
    class Liar:
        def __len__(self):
            return 2**62

        def __iter__(self):
            return iter(["a", "b"])

    assert of(["a", "b"]).contains_many(Liar()) == [True, True]


def test_a_filter_that_changes_meanwhile():
    seen, keys, stop = of(range(50_000)), numpy.arange(50_000), threading.Event()

    def change() -> None:
        n = 0
        while not stop.is_set():
            seen.add_many(numpy.arange(10**6 + n, 10**6 + n + 1000))
            n += 1000

    thread = threading.Thread(target=change)
    thread.start()
    try:
        assert all(seen.contains_many(keys).all() for _ in range(50))
    finally:
        stop.set()
        thread.join()


def test_an_iterator_that_fails_raises_its_own_error():
    def keys():
        yield "a"
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        of([]).add_many(keys())
