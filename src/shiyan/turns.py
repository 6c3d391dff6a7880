"""Control tokens of chat templates, which a server reads as such wherever they stand."""

import re

_CONTROL = re.compile(
    # <|im_end|> and its kin, also in full-width or look-alike marks.
    r"[<＜‹][|｜][^<>＜＞‹›|｜]{1,40}[|｜][>＞›]"
    r"|</?(?:s|pad|unk|bos|eos|mask|start_of_turn|end_of_turn|sop|eop)>"
    r"|<<\s?/?SYS\s?>>|\[/?(?:INST|gMASK|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS)\]",
    re.IGNORECASE,
)
_LOOK_ALIKES = str.maketrans("<＜>＞|｜[]", "‹‹››¦¦［］")


def without_control_tokens(text: str) -> str:
    """The text with control tokens in characters that only look like them: ‹¦im_end¦›.

    A poem, a reading or a reply that is shown to a model would otherwise end its message
    there, and what follows would be a turn of its own.
    """
    return _CONTROL.sub(lambda match: match[0].translate(_LOOK_ALIKES), text)
