"""Records in and out of files: nothing half-written, and a bad line names itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shiyan.errors import UserError
from shiyan.jsonl import read_objects, read_records, replacing, write_records
from shiyan.records import Assignment, Poem

ROOT = Path(__file__).resolve().parents[1]
LEAF = Poem(poem_id="a", title="叶", text="叶落了\n", genre="modern", author="甲")


def test_what_is_written_is_read_back(tmp_path):
    path = tmp_path / "new/poems.jsonl"
    assert write_records(path, [LEAF]) == 1
    assert list(read_records(path, Poem)) == [LEAF]
    assert "叶落了" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(("umask", "mode"), [("077", "600"), ("022", "644"), ("002", "664")])
def test_a_file_has_the_rights_that_the_user_gives(tmp_path, umask, mode):
    code = "from pathlib import Path; from shiyan.jsonl import replacing\n"
    code += "with replacing(Path('x')) as file: file.write('x')"
    command = f'umask {umask}; exec {sys.executable} -c "{code}"'
    subprocess.run(
        ["bash", "-c", command],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        check=True,
    )
    assert f"{(tmp_path / 'x').stat().st_mode & 0o777:o}" == mode


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"poem_id": "a"', r"poems\.jsonl:2 is not valid JSON"),
        (b"[1]", r"poems\.jsonl:2 holds list, not an object"),
        ("春叶".encode("gbk"), r"poems\.jsonl:2 is not UTF-8 \(byte 1"),
        (b'{"poem_id":"a","group_id":"a"}', r"poems\.jsonl:2 is not a Assignment: 'fold'"),
        (
            b'{"poem_id":"a","group_id":"a","fold":"tset"}',
            r"poems\.jsonl:2 is not a Assignment: 'fold' is 'tset'",
        ),
        (
            b'{"poem_id":"a","group_id":"a","fold":"test","x":1}',
            r"poems\.jsonl:2 is not a Assignment: unknown key 'x'",
        ),
    ],
)
def test_a_bad_line_is_named_by_file_and_number(tmp_path, line, message):
    path = tmp_path / "poems.jsonl"
    path.write_bytes(b'{"poem_id":"b","group_id":"b","fold":"train"}\n' + line + b"\n")
    with pytest.raises(UserError, match=message):
        list(read_records(path, Assignment))


def test_a_byte_order_mark_and_blank_lines_are_passed_over(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\r\n{"a": 2}')
    assert list(read_objects(path)) == [(1, {"a": 1}), (3, {"a": 2})]


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        list(read_objects(tmp_path / "no.jsonl"))


def test_an_interrupted_write_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "out.jsonl"
    path.write_text("old", encoding="utf-8")

    def poems():
        yield LEAF
        raise RuntimeError("stopped half-way")

    with pytest.raises(RuntimeError):
        write_records(path, poems())
    assert [p.name for p in tmp_path.iterdir()] == ["out.jsonl"]
    assert path.read_text(encoding="utf-8") == "old"


def test_a_full_disk_is_one_sentence_and_leaves_nothing(tmp_path):
    path = tmp_path / "out.txt"
    with pytest.raises(UserError, match=r"No space left.*nothing half-written"), replacing(path):
        raise OSError(28, "No space left on device")
    assert not list(tmp_path.iterdir())
