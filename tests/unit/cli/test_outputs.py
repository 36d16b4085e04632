"""Folders that a command makes: refused before work where they cannot be, gone again if nothing came of it."""

import os
from contextlib import suppress

import pytest

from optimist.cli.outputs import output_folder, require_folder
from optimist.files import removed_if_empty


def test_a_folder_is_made_with_those_above_it(tmp_path):
    with output_folder(tmp_path / "a/b", may_overwrite=False) as folder:
        (folder / "x").write_text("x")
    assert (tmp_path / "a/b/x").is_file()
    with pytest.raises(FileExistsError, match="is in use"), output_folder(tmp_path / "a/b", may_overwrite=False):
        pass
    with output_folder(tmp_path / "a/b", may_overwrite=True):
        pass


def test_after_a_failure_only_what_was_made_and_is_empty_goes(tmp_path):
    (tmp_path / "mine").mkdir()
    with pytest.raises(KeyboardInterrupt), output_folder(tmp_path / "mine/a/b", may_overwrite=False):
        raise KeyboardInterrupt
    assert (tmp_path / "mine").is_dir()
    assert not list((tmp_path / "mine").iterdir())
    with suppress(FileExistsError), removed_if_empty(tmp_path / "kept"):
        (tmp_path / "kept/x").mkdir(parents=True)
        (tmp_path / "kept/x").mkdir()
    assert (tmp_path / "kept/x").is_dir()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match="may not be written to"):
        require_folder(tmp_path / "a/b")
