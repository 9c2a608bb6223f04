"""A file appears whole, where it was meant to, with the permissions that its user chose."""

import os

import pytest

from hgeo._files import write_atomically


def test_text_is_written_as_utf8(tmp_path):
    write_atomically(tmp_path / "deep" / "text", "κ ± δ")
    assert (tmp_path / "deep" / "text").read_bytes() == "κ ± δ".encode()


@pytest.mark.parametrize("kind", ["symbolic", "hard", "dangling"])
def test_a_link_is_replaced_and_what_it_pointed_to_stays(tmp_path, kind):
    there, link = tmp_path / "there", tmp_path / "link"
    if kind != "dangling":
        there.write_text("mine")
    if kind == "hard":
        os.link(there, link)
    else:
        link.symlink_to(there)
    write_atomically(link, "new")
    assert link.read_text() == "new"
    assert not link.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == (["link"] if kind == "dangling" else ["link", "there"])
    assert kind == "dangling" or there.read_text() == "mine"


@pytest.mark.skipif(os.name != "posix", reason="permissions are of POSIX")
def test_a_file_is_as_private_as_the_umask_says(tmp_path):
    before = os.umask(0o077)
    try:
        write_atomically(tmp_path / "secret", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600


def test_a_folder_on_the_way_that_is_a_link_is_refused_however_deep(tmp_path):
    (tmp_path / "there" / "b").mkdir(parents=True)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "a").symlink_to(tmp_path / "there")
    with pytest.raises(ValueError, match=r"run/a is a link to .*there; nothing is written through links inside .*run:"):
        write_atomically(tmp_path / "run" / "a" / "b" / "file", "x", inside=tmp_path / "run")
    assert list((tmp_path / "there" / "b").iterdir()) == []


def test_a_file_outside_the_folder_that_it_belongs_to_is_refused(tmp_path):
    for outside in (tmp_path / "file", tmp_path / "run" / "a" / ".." / ".." / "there" / "file"):
        with pytest.raises(ValueError, match="not inside"):
            write_atomically(outside, "x", inside=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
