"""A cached file is read only where nobody but the user can have written it; a planted kernel is not run."""

import os
import re
import sys
import warnings

import pytest

from hgeo._cache import CacheWarning, cache_folder, cache_trouble, cached_names, read_cached, write_cached
from hgeo.cli import main

posix = pytest.mark.skipif(os.name != "posix", reason="users and permissions of POSIX")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache folder, with one file on one shelf, in a home folder of its own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HGEO_CACHE", str(tmp_path / "on" / "the way" / "cache"))
    write_cached("shelf", "file", b"code")
    return cache_folder()


@pytest.fixture
def stranger(monkeypatch):
    """Makes the process run as another user than the one who owns the files that it wrote."""
    someone = os.geteuid() + 12345
    return lambda: monkeypatch.setattr(os, "geteuid", lambda: someone)


def assert_ignored(why):
    """Nothing is read, and one warning says why and what to do."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert [read_cached("shelf", "file") for _ in range(3)] == [None] * 3
    (warning,) = told
    assert warning.category is CacheWarning
    assert re.search(rf"the cache .*shelf is not used: .*{why}.*set HGEO_CACHE", str(warning.message))


def test_a_written_cache_file_is_read_and_listed(cache):
    assert read_cached("shelf", "file") == b"code"
    assert cached_names("shelf") == ["file"]
    write_cached("shelf", "file", b"newer code")
    assert read_cached("shelf", "file") == b"newer code"
    assert cached_names("shelf") == ["file"]
    assert cache_trouble("shelf") is None


def test_a_missing_cache_file_reads_as_none(cache):
    assert read_cached("shelf", "other") is None
    assert read_cached("other", "file") is None
    assert cached_names("other") == []
    assert cache_trouble("other") is None
    assert not (cache / "other").exists()  # nobody asked for it to be made


def test_a_damaged_cache_file_reads_as_none(cache):
    file = cache / "shelf" / "file"
    file.write_bytes(file.read_bytes()[:-1])
    assert read_cached("shelf", "file") is None


@posix
def test_new_folders_and_files_are_for_the_user_only(tmp_path, cache):
    modes = {path: path.lstat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert modes == {
        tmp_path / "on": 0o700,
        tmp_path / "on" / "the way": 0o700,
        cache: 0o700,
        cache / "shelf": 0o700,
        cache / "shelf" / "file": 0o600,
    }


@posix
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777])
def test_a_cache_folder_that_others_can_write_is_not_read(cache, mode):
    (cache / "shelf").chmod(mode)
    assert_ignored(rf"others can write .*shelf \(mode {mode:o}\).*chmod go-w")
    assert cached_names("shelf") == []


@posix
@pytest.mark.parametrize("mode", [0o660, 0o606])
def test_a_file_that_others_can_write_is_not_read(cache, mode):
    (cache / "shelf" / "file").chmod(mode)
    assert_ignored(rf"others can write .*file \(mode {mode:o}\)")
    write_cached("shelf", "file", b"mine")
    assert read_cached("shelf", "file") == b"mine"  # a new file in its place


@posix
def test_a_cache_folder_of_another_user_is_not_read(cache, stranger):
    mine = os.geteuid()
    stranger()
    if mine == 0:  # a folder of root's on the way is trusted, its shelf is not
        assert_ignored(r"shelf belongs to another user \(number 0\)")
    else:
        assert_ignored(rf"belongs to another user \(number {mine}\)")


@posix
def test_a_file_of_another_user_is_not_read(cache, monkeypatch):
    real = os.fstat

    def fstat(descriptor):
        status = list(real(descriptor))
        if not os.path.isdir(f"/dev/fd/{descriptor}"):
            status[4] += 12345
        return os.stat_result(status)

    monkeypatch.setattr(os, "fstat", fstat)
    assert_ignored("file belongs to another user")


@posix
@pytest.mark.parametrize("writable", ["on", "on/the way", "on/the way/cache", "."])
def test_a_folder_on_the_way_that_others_can_write_lets_them_put_another_in_its_place(tmp_path, cache, writable):
    (tmp_path / writable).chmod(0o777)
    try:
        assert_ignored(r"others can write .*\(mode 777\)")
        (tmp_path / writable).chmod(0o1777)  # sticky, as /tmp: nobody moves what belongs to another
        assert read_cached("shelf", "file") == b"code"
    finally:
        (tmp_path / writable).chmod(0o700)


@posix
def test_nothing_is_made_or_written_where_others_could_change_it(tmp_path, cache):
    (tmp_path / "on").chmod(0o777)
    with pytest.warns(CacheWarning):
        write_cached("another shelf", "file", b"code")
    assert [path.name for path in cache.iterdir()] == ["shelf"]


@posix
def test_permissions_above_the_home_folder_are_not_checked(tmp_path, cache, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "on" / "the way"))
    (tmp_path / "on").chmod(0o777)
    assert read_cached("shelf", "file") == b"code"
    (tmp_path / "on" / "the way").chmod(0o777)  # the home folder itself is
    assert_ignored("others can write .*the way")


@posix
def test_links_of_the_users_lead_to_the_cache(tmp_path, cache, monkeypatch):
    (tmp_path / "absolute").symlink_to(tmp_path / "on")
    (tmp_path / "on" / "relative").symlink_to("../on/the way")
    monkeypatch.setenv("HGEO_CACHE", str(tmp_path / "absolute" / "relative" / "cache"))
    assert read_cached("shelf", "file") == b"code"
    write_cached("shelf", "second", b"more")
    assert cached_names("shelf") == ["file", "second"]


@posix
def test_links_that_form_a_ring_are_not_followed(tmp_path, cache, monkeypatch):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    monkeypatch.setenv("HGEO_CACHE", str(tmp_path / "a"))
    assert read_cached("shelf", "file") is None


@posix
def test_a_link_in_a_folder_that_others_can_write_is_not_followed(tmp_path, cache, monkeypatch):
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "cache").symlink_to(cache)
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setenv("HGEO_CACHE", str(tmp_path / "open" / "cache"))
    assert_ignored("others can write .*open ")


@posix
def test_a_link_at_the_place_of_a_file_is_not_followed(cache):
    (cache / "shelf" / "link").symlink_to(cache / "shelf" / "file")
    assert read_cached("shelf", "link") is None


@posix
def test_a_file_is_judged_as_it_was_opened_whatever_has_its_name_since(cache, monkeypatch):
    file, opened = cache / "shelf" / "file", os.open
    file.chmod(0o666)

    def open_and_swap(path, *rest, **more):
        descriptor = opened(path, *rest, **more)
        if path == "file":
            file.unlink()
            file.touch(0o600)
        return descriptor

    monkeypatch.setattr(os, "open", open_and_swap)
    with pytest.warns(CacheWarning, match=r"others can write .*file"):
        assert read_cached("shelf", "file") is None


@posix
def test_doctor_shows_the_folder_and_what_is_wrong_with_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HGEO_CACHE", str(tmp_path / "cache"))
    write_cached("kernels", "file", b"code")
    main(["doctor"])
    assert f"ok      cache              {tmp_path / 'cache'}\n" in capsys.readouterr().out
    (tmp_path / "cache" / "kernels").chmod(0o777)
    main(["doctor"])
    line = next(line for line in capsys.readouterr().out.splitlines() if " cache " in line)
    assert line.startswith(f"note    cache              {tmp_path / 'cache'} is not used: others can write")
    assert "chmod go-w" in line


def test_the_cache_lives_in_the_users_cache_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("HGEO_CACHE", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "hgeo"
    monkeypatch.setenv("HGEO_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("HGEO_CACHE", str(tmp_path / "file" / "cache"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_cached("shelf", "file", b"code")
        assert read_cached("shelf", "file") is None
    assert cached_names("shelf") == []
