"""Scores in JSON documents and Markdown tables."""

import re
from collections.abc import Iterator, Sequence

from shiyan.judging.expression import FINAL_WORD, IS_FINAL, Reading, normalised, read_whole
from shiyan.judging.loose_json import Document, JsonObject, Value, documents
from shiyan.judging.mention import FINAL, LABELLED, Block, Mention, agreed
from shiyan.judging.prose import of_section
from shiyan.judging.rubric import Rubric, dimension_of, folded

_OVERALL = ("评分", "得分", "分数", "打分", "score", "rating", "grade", "overall", "总分", "总体")
"""In a rubric of one dimension these name it."""

# --- JSON ---------------------------------------------------------------------------

_SCORE_KEYS = re.compile(
    rf"^(?:(?:{FINAL_WORD})的?[\s_-]*)?"
    r"(?:score|rating|grade|points?|value|评分|得分|分数|打分|分值)$",
    re.I,
)
_REASON_KEYS = re.compile(
    r"^(?:reason(?:s|ing)?|comments?|explanations?|rationale"
    r"|(?:评分|打分)?理由|原因|评语|说明|解释|点评)$",
    re.I,
)
_NAME_KEYS = re.compile(r"^(?:dimension|name|criterion|aspect|维度|评分维度|名称|指标|项目)$", re.I)
_KEY_ROLE = re.compile(
    r"[\s_-]*(?:score|rating|评分|得分|分数|(?P<reason>reasons?|comments?|理由|评语|说明))$", re.I
)


def json_blocks(text: str, rubric: Rubric) -> tuple[list[Block], str, bool]:
    """Blocks of the JSON documents that speak of a dimension, and the text without them."""
    blocks: list[Block] = []
    rest, repaired = text, False
    for document in documents(text):
        mentions = list(_json_mentions(document.value, rubric))
        if not any(m.reading for m in mentions):
            mentions = _json_row(document, rubric)
        if mentions:
            blocks.append(Block(document.start, mentions))
            repaired |= document.repaired
            blank = re.sub(r"[^\n]", " ", text[document.start : document.end])
            rest = rest[: document.start] + blank + rest[document.end :]
    return blocks, rest, repaired


def _json_row(document: Document, rubric: Rubric) -> list[Mention]:
    """An array of exactly one number a dimension, in the order that was asked."""
    numbers = _only_array(document.value)
    readings = [read_whole(v, rubric) for v in numbers if isinstance(v, str)]
    known = [reading for reading in readings if reading is not None]
    if document.cut or len(numbers) != len(rubric.names) or len(known) != len(numbers):
        return []
    return [Mention(name, reading) for name, reading in zip(rubric.names, known, strict=True)]


def _only_array(value: Value) -> list[Value]:
    """[90, …], [[90, …]] and {"scores": [90, …]} all hold one array."""
    if isinstance(value, JsonObject):
        return _only_array(value.members[0][1]) if len(value.members) == 1 else []
    if isinstance(value, str):
        return []
    inner = _only_array(value[0]) if len(value) == 1 else []
    return inner or value


def _json_mentions(value: Value, rubric: Rubric, within: str = "") -> Iterator[Mention]:
    if isinstance(value, str):
        return
    if not isinstance(value, JsonObject):
        for element in value:
            yield from _listed(element, rubric) or _json_mentions(element, rubric, within)
        return
    named = _named_object(value, rubric)
    if named is not None:
        yield named
        return
    for key, content in value.members:
        dimension, is_reason = _meaning(key, rubric)
        if dimension is None:
            yield from _json_mentions(content, rubric, key)
        elif isinstance(content, str) and (is_reason or _REASON_KEYS.match(within)):
            yield Mention(dimension, None, content.strip())
        else:
            yield _keyed(dimension, content, rubric)
    if len(rubric.names) == 1:
        yield from (Mention(rubric.names[0], None, reason) for reason in _reasons(value))


def _meaning(key: str, rubric: Rubric) -> tuple[str | None, bool]:
    """The dimension a key is about, and whether it announces a reason: 内容, 内容评分, 内容理由."""
    if (dimension := dimension_of(key, rubric)) is not None:
        return dimension, False
    if len(rubric.names) == 1 and folded(key) in _OVERALL:
        return rubric.names[0], False
    role = _KEY_ROLE.search(key)
    if role is None:
        return None, False
    return dimension_of(key[: role.start()], rubric), role["reason"] is not None


def _reasons(found: JsonObject) -> list[str]:
    members = found.members
    return [v.strip() for k, v in members if _REASON_KEYS.match(k) and isinstance(v, str)]


def _named_object(found: JsonObject, rubric: Rubric) -> Mention | None:
    """{"dimension": "内容", "score": 90, "reason": …}"""
    names = [v for k, v in found.members if _NAME_KEYS.match(k) and isinstance(v, str)]
    dimension = dimension_of(names[0], rubric) if len(names) == 1 else None
    return _keyed(dimension, found, rubric) if dimension else None


def _listed(element: Value, rubric: Rubric) -> list[Mention]:
    """["内容", 90, "…"]"""
    if not isinstance(element, list) or len(element) < 2:
        return []
    name, score = element[:2]
    dimension = dimension_of(name, rubric) if isinstance(name, str) else None
    if dimension is None or not isinstance(score, str):
        return []
    return [_row(dimension, element[1:], rubric)]


def _row(dimension: str, values: Sequence[Value], rubric: Rubric) -> Mention:
    """[90, "…"]: the score and its reason; of two scores neither is taken."""
    texts = [value for value in values if isinstance(value, str)]
    readings = [read_whole(text, rubric) for text in texts]
    found = agreed([Mention(dimension, reading) for reading in readings])
    words = (text for text, reading in zip(texts, readings, strict=True) if reading is None)
    return Mention(dimension, found if readings and readings[0] else None, " ".join(words))


def _keyed(dimension: str, content: Value, rubric: Rubric) -> Mention:
    """What stands under a dimension's key: a number, a sentence, or an object of both."""
    if isinstance(content, str):
        whole = read_whole(content, rubric)
        if whole is not None:
            return Mention(dimension, whole)
        return of_section(dimension, normalised(content), rubric)
    if not isinstance(content, JsonObject):
        return _row(dimension, content, rubric)
    readings = [
        Mention(dimension, read_whole(v, rubric), rung=FINAL if IS_FINAL.search(k) else LABELLED)
        for k, v in content.members
        if _SCORE_KEYS.match(k) and isinstance(v, str)
    ]
    return Mention(dimension, agreed(readings), " ".join(_reasons(content)))


# --- tables -------------------------------------------------------------------------

_SCORE_COLUMN = re.compile(
    r"分数|得分|评分(?!理由|标准|依据|说明)|打分(?!理由)|分值|score|points|rating", re.I
)
_REASON_COLUMN = re.compile(
    r"理由|原因|评语|说明|解释|点评|依据|reason|comment|explanation|rationale", re.I
)
_FINAL_COLUMN = re.compile(rf"{FINAL_WORD}|终审|定分", re.I)
_RULE = re.compile(r"^[\s|:+\-—–=\u2500-\u257f]+$")


def table_blocks(text: str, rubric: Rubric) -> tuple[list[Block], str]:
    """Blocks of the Markdown tables with a row or a column a dimension, and the text without them.

    What is taken out leaves blanks, so that positions stay those of the reply.
    """
    blocks: list[Block] = []
    rest: list[str] = []
    table: list[str] = []
    position = table_start = 0
    for line in [*text.split("\n"), ""]:
        is_row = line.count("|") >= 2 or (bool(table) and _RULE.match(line) is not None)
        if is_row:
            table_start = table_start if table else position
            table.append(line)
        else:
            mentions = _table_mentions([_cells(row) for row in table], rubric)
            if mentions:
                blocks.append(Block(table_start, mentions))
            rest += [" " * len(row) if mentions else row for row in table] + [line]
            table = []
        position += len(line) + 1
    return blocks, "\n".join(rest[:-1])


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|").removesuffix("|")
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", inner)]


def _table_mentions(lines: Sequence[list[str]], rubric: Rubric) -> list[Mention]:
    rows = [cells for cells in lines if not _RULE.match("|".join(cells))]
    if not rows:
        return []
    mentions = list(_column_a_dimension(rows, rubric)) or list(_row_a_dimension(rows, rubric))
    return mentions if any(m.reading for m in mentions) else []


def _column_a_dimension(rows: Sequence[list[str]], rubric: Rubric) -> Iterator[Mention]:
    head = [dimension_of(cell, rubric) for cell in rows[0]]
    if sum(name is not None for name in head) < 2:
        return
    for row in rows[1:]:
        readings = [_cell(cell, rubric) for cell in row]
        if len(row) == len(head) and any(readings):
            for name, reading in zip(head, readings, strict=True):
                if name is not None:
                    yield Mention(name, reading)


def _row_a_dimension(rows: Sequence[list[str]], rubric: Rubric) -> Iterator[Mention]:
    head = rows[0]
    score_columns = [i for i, cell in enumerate(head) if _SCORE_COLUMN.search(cell)]
    numeric = _numeric_columns(rows, rubric)
    final = [i for i in sorted({*score_columns, *numeric}) if _FINAL_COLUMN.search(head[i])]
    if not score_columns and len(numeric) > 1:  # No heading says which: they must agree.
        score_columns = numeric
    reason_columns = [i for i, cell in enumerate(head) if _REASON_COLUMN.search(cell)]
    for row in rows:
        at = next((i for i, cell in enumerate(row[:3]) if dimension_of(cell, rubric)), None)
        if at is None:
            continue
        name = dimension_of(row[at], rubric)
        columns = [i for i in final or score_columns if i != at] or [at + 1]
        cells = [row[i] for i in columns if i < len(row)]
        mentions = [Mention(str(name), _cell(cell, rubric)) for cell in cells]
        reason_at = reason_columns or range(max(columns) + 1, len(row))
        reason = " ".join(row[i] for i in reason_at if i < len(row) and i not in columns)
        yield Mention(str(name), agreed(mentions), reason.strip())


def _numeric_columns(rows: Sequence[list[str]], rubric: Rubric) -> list[int]:
    """The columns that hold a number behind a dimension's name, in some row."""
    found: set[int] = set()
    for row in rows:
        at = next((i for i, cell in enumerate(row[:3]) if dimension_of(cell, rubric)), None)
        if at is not None:
            after = range(at + 1, min(len(row), len(rows[0])))
            found |= {i for i in after if read_whole(row[i], rubric)}
    return sorted(found)


def _cell(text: str, rubric: Rubric) -> Reading | None:
    return read_whole(text, rubric) or of_section("", text, rubric).reading
