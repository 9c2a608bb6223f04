"""A taxonomy is read with what is wrong in it said by line, closed, and hidden in part."""

import itertools

import numpy as np
import pytest

from hgeo.data import DataError, random_taxonomy, read_pairs, read_wordnet


def written(tmp_path, text, name="pairs.tsv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def named(pairs):
    return {(pairs.names[child], pairs.names[parent]) for child, parent in pairs.index.tolist()}


def test_a_line_is_a_child_and_a_parent(tmp_path):
    pairs = read_pairs(written(tmp_path, "dog\tcanine\n\ncanine\tmammal\r\nwhite wolf\tcanine\n"))
    assert pairs.names == ("dog", "canine", "mammal", "white wolf")
    assert named(pairs) == {("dog", "canine"), ("canine", "mammal"), ("white wolf", "canine")}


def test_a_first_line_may_name_the_columns_and_others_may_be_chosen(tmp_path):
    text = 'id,Parent,Child,kind\n1,"b, or so",a,x\n2,c,"b, or so",y\n'
    path = written(tmp_path, text, "pairs.csv")
    assert named(read_pairs(path)) == {("a", "b, or so"), ("b, or so", "c")}
    assert named(read_pairs(path, child="id", parent="kind")) == {("1", "x"), ("2", "y")}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a\tb\nb\n", "line 2: expected a child and a parent with a tab between them"),
        ("a\tb\n\nc\tc\n", "line 3: 'c' is its own parent"),
        ("a\tb\nb\tc\na\tb\n", "line 3: 'a' under 'b' was given on line 1 already"),
        ("d\ta\na\tb\nb\tc\nc\ta\nc\te\n", "line 4: a cycle ends here: "),
        ("", "has 0 names; a taxonomy needs at least two"),
        ("child\tparent\n", "has 0 names"),
        ("child\tparent\tchild\na\tb\tc\n", "line 1: 2 columns are called 'child'"),
        (b"a\tb\nb\t\xff\n", "line 2: not UTF-8"),
    ],
)
def test_an_error_names_the_line_of_the_file(tmp_path, text, words):
    with pytest.raises(DataError) as caught:
        read_pairs(written(tmp_path, text))
    assert words in str(caught.value)


def test_an_error_about_a_cycle_lists_its_nodes(tmp_path):
    with pytest.raises(DataError) as caught:
        read_pairs(written(tmp_path, "a\tb\nb\tc\nc\ta\nx\ta\n"))
    cycle = str(caught.value).split("ends here: ")[1].split(" under ")
    assert len(cycle) == 4
    assert cycle[0] == cycle[-1]
    steps = {("'a'", "'b'"), ("'b'", "'c'"), ("'c'", "'a'")}
    assert set(itertools.pairwise(cycle)) == steps


def test_an_unknown_column_is_named_beside_those_there_are(tmp_path):
    path = written(tmp_path, "name,is\na,b\n", "pairs.csv")
    with pytest.raises(DataError, match="line 1: no column is called 'below'; the columns are 'name', 'is'"):
        read_pairs(path, child="below", parent="is")


def test_the_closure_has_every_pair_of_a_node_and_one_above_it(tmp_path):
    path = written(tmp_path, "d\tb\nd\tc\nb\ta\nc\ta\na\troot\n")
    closed = read_pairs(path, closure=True)
    below = {"d": "b c a root", "b": "a root", "c": "a root", "a": "root"}
    assert named(closed) == {(child, parent) for child, text in below.items() for parent in text.split()}
    assert named(closed.closure()) == named(closed)


def test_a_branch_is_a_node_and_all_that_is_under_it(tmp_path):
    pairs = read_pairs(written(tmp_path, "x\ta\nb\ta\nc\tb\nd\tc\nd\tx\ne\tx\n"))
    assert named(pairs.below("b")) == {("c", "b"), ("d", "c")}
    assert named(pairs.closure().below("b")) == {("c", "b"), ("d", "c"), ("d", "b")}
    assert named(pairs.below("a")) == named(pairs)
    with pytest.raises(DataError, match="nothing is under 'e'"):
        pairs.below("e")
    with pytest.raises(DataError, match="no node is called 'z'"):
        pairs.below("z")


def test_hidden_and_known_pairs_are_all_pairs_and_none_is_both():
    pairs = random_taxonomy(60).closure()
    known, hidden = pairs.hide(0.3, seed=4)
    assert not named(known) & named(hidden)
    assert named(known) | named(hidden) == named(pairs)
    assert len(hidden.index) == round(0.3 * len(pairs.index))
    assert known.names == hidden.names == pairs.names
    assert named(pairs.hide(0.3, seed=4)[1]) == named(hidden) != named(pairs.hide(0.3, seed=5)[1])
    with pytest.raises(DataError, match="hides 0"):
        pairs.hide(0.0001)


def test_a_generated_taxonomy_is_a_tree():
    tree = random_taxonomy(100, seed=3)
    assert np.array_equal(np.sort(tree.index[:, 0]), np.arange(1, 100))
    assert (tree.index[:, 1] < tree.index[:, 0]).all()
    assert tree.names == random_taxonomy(100, seed=3).names != random_taxonomy(100, seed=4).names


DATA = """\
  1 a licence
00000010 03 n 01 thing 0 001 ~ 00000020 n 0000 | anything at all
00000020 03 n 02 Beast 0 creature 0 002 @ 00000010 n 0000 + 00000099 v 0101 | moves | by itself
00000030 05 n 01 beast 1 001 @ 00000020 n 0000 | a rude one
00000040 05 n 01 Rex 0 002 @i 00000020 n 0000 @ 00000030 n 0000 | one of its own
"""
INDEX = """\
  1 a licence
beast n 2 1 @ 2 0 00000030 00000020
creature n 1 1 @ 1 0 00000020
rex n 1 1 @ 1 0 00000040
thing n 1 1 ~ 1 0 00000010
"""


def dictionary(tmp_path, data=DATA, index=INDEX):
    written(tmp_path, data, "data.noun")
    written(tmp_path, index, "index.noun")
    return tmp_path


def test_wordnets_hypernyms_and_instances_are_pairs_named_by_word_and_sense(tmp_path, monkeypatch):
    monkeypatch.setenv("WNSEARCHDIR", str(dictionary(tmp_path)))
    edges = {
        ("Beast.n.02", "thing.n.01"),
        ("beast.n.01", "Beast.n.02"),
        ("Rex.n.01", "Beast.n.02"),
        ("Rex.n.01", "beast.n.01"),
    }
    assert named(read_wordnet(closure=False)) == edges
    assert named(read_wordnet()) == edges | {("beast.n.01", "thing.n.01"), ("Rex.n.01", "thing.n.01")}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (DATA.replace("03 n 02 Beast", "03 n zz Beast"), "data.noun, line 3: not a synset"),
        (DATA.replace("@ 00000010", "@ 00000077"), "line 3: the hypernym at 00000077 is not in the file"),
        (DATA.replace("~ 00000020", "@ 00000040"), "is above itself"),
    ],
)
def test_a_damaged_dictionary_is_refused_with_the_line(tmp_path, data, words):
    with pytest.raises(DataError) as caught:
        read_wordnet(dictionary(tmp_path, data))
    assert words in str(caught.value)


def test_without_wordnet_the_error_says_where_it_was_looked_for(tmp_path):
    with pytest.raises(DataError, match=f"looked for in {tmp_path}; install it"):
        read_wordnet(tmp_path)
    with pytest.raises(DataError, match="none of 'adverb'"):
        read_wordnet(part="adverb")
