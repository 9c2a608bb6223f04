"""Pickled files are read without running anything that they name."""

import io
import os
import pickle
from collections import defaultdict

import numpy as np
import pytest
import scipy.sparse
from raw_files import calls

from hgeo.data import DataError
from hgeo.data._pickle import ARRAYS, LISTS, load_pickle


@pytest.fixture
def file(tmp_path):
    return tmp_path / "file"


def read(file, content, allowed=ARRAYS | LISTS):
    file.write_bytes(content)
    return load_pickle(file, allowed)


def program(*lines: bytes) -> bytes:
    """A pickle in the words of its own machine."""
    return b"\x80\x02" + b"".join(lines)


def test_a_malicious_pickle_runs_code_in_pickle_but_not_in_hgeo(file, bomb):
    with pytest.raises(DataError, match=r"file cannot be read: it names builtins\.getattr, .* it was not run"):
        read(file, bomb.pickled)
    assert not bomb.went_off
    with open(file, "rb") as opened:
        pickle.load(opened)
    assert bomb.went_off


@pytest.mark.parametrize(
    "name",
    [
        "numpy.testing._private.utils.runstring",
        "numpy.load",
        "numpy.core.multiarray.fromfile",
        "numpy._core.multiarray._reconstruct.__call__",
        "numpy.ndarray.tofile",
        "scipy.sparse.csr.csr_matrix_",
        "collections.namedtuple",
        "builtins.eval",
        "builtins.list.append",
        "os.system",
    ],
)
@pytest.mark.parametrize("protocol", [2, 4])
def test_a_name_that_is_not_allowed_is_refused_even_if_its_module_is(file, bomb, name, protocol):
    module, _, function = name.rpartition(".")
    argument = f"open({str(bomb.path)!r}, 'w')".encode()
    words = {2: b"c%b\n%b\n", 4: b"\x8c" + bytes([len(module)]) + b"%b\x8c" + bytes([len(function)]) + b"%b\x93"}
    named = words[protocol] % (module.encode(), function.encode())
    content = b"\x80" + bytes([protocol]) + named + b"(V" + argument + b"\n}tR."
    with pytest.raises(DataError, match="which no file of this kind needs; it was not run"):
        read(file, content)
    if protocol == 4 and "list" in name:  # one module, and a name with a dot in it
        dotted = b"\x80\x04\x8c\x08builtins\x8c\x0blist.append\x93."
        with pytest.raises(DataError, match=r"builtins\.list\.append"):
            read(file, dotted)
    assert not bomb.went_off


def test_a_numpy_function_that_runs_strings_is_refused(file, bomb):
    from numpy.testing._private.utils import runstring

    content = calls(runstring, f"open({str(bomb.path)!r}, 'w')", {})
    with pytest.raises(DataError, match=r"numpy\.testing\._private\.utils\.runstring"):
        read(file, content)
    assert not bomb.went_off
    pickle.loads(content)
    assert bomb.went_off


def test_an_object_that_says_how_to_call_a_function_is_refused(file):
    with pytest.raises(DataError, match=f"it names {os.system.__module__}.system"):
        read(file, calls(os.system, "true"))


@pytest.mark.parametrize("protocol", [3, 4])
@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype="<i4").reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array([1, 2], dtype=">f8"),
        np.array([True, False]),
        np.zeros((0, 4), np.float32),
        np.array(3.0),
    ],
    ids=["integers", "by columns", "big endian", "booleans", "empty", "one number"],
)
def test_an_array_of_numbers_comes_back_as_it_was(file, array, protocol):
    found = np.asarray(read(file, pickle.dumps(array, protocol=protocol), ARRAYS))
    assert found.dtype == array.dtype.newbyteorder("=")  # as NumPy's own
    assert found.flags.f_contiguous == array.flags.f_contiguous
    np.testing.assert_array_equal(found, array)


def test_a_sparse_matrix_comes_back_as_it_was(file):
    matrix = scipy.sparse.random(5, 7, density=0.3, format="csr", random_state=0, dtype="f4")
    found = read(file, pickle.dumps(matrix, protocol=3), ARRAYS)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found.toarray(), matrix.toarray())


@pytest.mark.parametrize("module", ["numpy.core.multiarray", "numpy._core.multiarray"])
def test_an_array_of_python_2_is_read_under_the_old_and_the_new_name_of_its_module(file, module):
    content = program(
        b"c" + module.encode() + b"\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R",
        b"(K\x01K\x02\x85cnumpy\ndtype\nU\x02i2K\x00K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb",
        b"\x89U\x04\x01\x00\xff\xfftb.",
    )
    assert read(file, content, ARRAYS).tolist() == [1, -1]


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_neighbours_are_a_defaultdict_of_lists_and_of_nothing_else(file, protocol):
    neighbours = defaultdict(list, {0: [1, 2], 2: [0]})
    assert read(file, pickle.dumps(neighbours, protocol=protocol), LISTS) == neighbours
    with pytest.raises(DataError, match="which no file of this kind needs"):
        read(file, pickle.dumps(defaultdict(dict), protocol=protocol), LISTS)
    with pytest.raises(DataError, match="expected one of lists"):
        read(file, pickle.dumps(defaultdict(defaultdict), protocol=protocol), LISTS)
    with pytest.raises(DataError, match="cannot be read"):
        read(file, pickle.dumps(defaultdict(None), protocol=protocol), LISTS)


def test_a_kind_of_file_may_not_name_what_another_kind_may(file):
    with pytest.raises(DataError, match=r"collections\.defaultdict"):
        read(file, pickle.dumps(defaultdict(list)), ARRAYS)
    with pytest.raises(DataError, match=r"multiarray\._reconstruct"):
        read(file, pickle.dumps(np.arange(3)), LISTS)


@pytest.mark.parametrize(
    "array",
    [
        np.array([object, 1], dtype=object)[1:],
        np.zeros(2, dtype=[("a", "O"), ("b", "i8")]),
        np.zeros(2, dtype="V8"),
        np.zeros(2, dtype="M8[s]"),
        np.zeros(2, dtype="U4"),
        np.zeros(2, dtype="c16"),
    ],
    ids=["objects", "records", "raw", "dates", "text", "complex"],
)
def test_an_array_of_anything_but_real_numbers_is_refused(file, array):
    with pytest.raises(DataError, match="expected plain numbers"):
        read(file, pickle.dumps(array, protocol=3))


def array_of(dtype_state: bytes, shape: bytes, content: bytes) -> bytes:
    return program(
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R",
        b"(K\x01" + shape + b"cnumpy\ndtype\nU\x02i8K\x00K\x01\x87R" + dtype_state + b"b\x89" + content + b"tb.",
    )


PLAIN = b"(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00t"


@pytest.mark.parametrize(
    "content",
    [
        array_of(PLAIN, b"J\xff\xff\xff\x7f\x85", b"U\x08" + b"\x00" * 8),
        array_of(PLAIN, b"J\xff\xff\xff\xffJ\xff\xff\xff\xff\x86", b"U\x08" + b"\x00" * 8),
        array_of(PLAIN, b"K\x01\x85", b"]K\x01a"),
        array_of(b"K\x05", b"K\x01\x85", b"U\x08" + b"\x00" * 8),
    ],
    ids=["larger than its bytes", "of negative sizes", "of objects", "of a dtype that is a number"],
)
def test_an_array_whose_description_does_not_fit_its_bytes_is_refused(file, content):
    with pytest.raises(DataError, match="cannot be read"):
        read(file, content)


def test_fields_and_sizes_claimed_by_a_stored_dtype_are_ignored(file):
    forged = b"(K\x03U\x01<NU\x01a\x85}J\xff\xff\xff\x7fK\x08K\x00t"  # records of two gigabytes, without an object flag
    assert read(file, array_of(forged, b"K\x01\x85", b"U\x08" + b"\x07" + b"\x00" * 7)).tolist() == [7]


@pytest.mark.parametrize("part", ["indices", "indptr"])
def test_a_sparse_matrix_that_points_outside_of_itself_is_refused(file, part):
    matrix = scipy.sparse.identity(3, format="csr")
    getattr(matrix, part)[-1] = 1_000_000
    with pytest.raises(DataError, match="cannot be read"):
        read(file, pickle.dumps(matrix, protocol=3))


@pytest.mark.parametrize("by", ["an item", "a state"])
def test_a_sparse_matrix_cannot_be_changed_after_it_was_checked(file, by):
    """Its own pickle, and then one more word about the array of its indices, which the pickle still has at hand."""
    matrix, buffer = scipy.sparse.identity(200, format="csr"), io.BytesIO()
    pickler = pickle._Pickler(buffer, protocol=3)
    pickler.save(matrix)
    pickler.write(b"h" + bytes([pickler.memo[id(matrix.indices)][0]]))
    if by == "an item":
        pickler.save(3)
        pickler.save(1_000_000)
        pickler.write(b"s0.")
    else:
        pickler.save(np.full(200, 1_000_000, matrix.indices.dtype).__reduce__()[2])
        pickler.write(b"b0.")
    found = read(file, buffer.getvalue(), ARRAYS)
    np.testing.assert_array_equal(found.indices, np.arange(200))


@pytest.mark.parametrize("part", ["data", "indices", "indptr"])
def test_a_sparse_matrix_of_anything_but_arrays_is_refused(file, part):
    matrix = scipy.sparse.identity(3, format="csr")
    setattr(matrix, part, getattr(matrix, part).tolist())
    with pytest.raises(DataError, match="it holds a sparse matrix that is not made of arrays"):
        read(file, pickle.dumps(matrix, protocol=3))


@pytest.mark.parametrize("name", sorted(ARRAYS | LISTS))
def test_a_file_cannot_give_a_class_new_attributes(file, name):
    """BUILD on a class itself would set them for the rest of the process."""
    before = {pair: set(vars(kind)) for pair, kind in kinds(file).items()}
    named = b"c" + name[0].encode() + b"\n" + name[1].encode() + b"\n"
    for state in (b"}U\x08__init__cbuiltins\nlist\ns", b"N}U\x08__init__cbuiltins\nlist\ns\x86"):
        with pytest.raises(DataError, match="cannot be read"):
            read(file, program(named, state, b"b."))
    assert {pair: set(vars(kind)) for pair, kind in kinds(file).items()} == before


def kinds(file):
    """What each name stands for."""
    pairs = sorted(ARRAYS | LISTS)
    return {pair: read(file, program(b"c%b\n%b\n." % (pair[0].encode(), pair[1].encode()))) for pair in pairs}


def test_a_file_that_is_no_pickle_gives_an_error_of_one_line(file):
    for content in (b"", b"text", b"\x80\x02", pickle.dumps([1] * 100)[:-20]):
        with pytest.raises(DataError, match="file cannot be read: ") as caught:
            read(file, content)
        assert "\n" not in str(caught.value)
