"""What became of a request, as a record."""

from typing import Literal

from shiyan.chat import ChatFailure, ChatReply, Outcome
from shiyan.records import Reply


def reply_record(
    kind: Literal["poem", "understanding"],
    reply_id: str,
    *,
    generator: str,
    prompt_id: str,
    seed_poem_id: str | None,
    cipai: str | None = None,
    outcome: Outcome,
    attempts: int,
    missing: str | None = None,
    flags: tuple[str, ...] = (),
    removed: tuple[tuple[str, str], ...] = (),
) -> Reply:
    """A reply that was kept, or is missing: by a cleaning rule (`missing`) or as a failure."""
    failure = outcome if isinstance(outcome, ChatFailure) else None
    reply = outcome if isinstance(outcome, ChatReply) else None
    reason = failure.kind if failure else missing
    return Reply(
        reply_id=reply_id,
        kind=kind,
        generator=generator,
        prompt_id=prompt_id,
        seed_poem_id=seed_poem_id,
        cipai=cipai,
        text=outcome.text,
        reasoning=reply.thinking if reply else outcome.reasoning,
        served_model=reply.model if reply else None,
        finish_reason=outcome.finish_reason,
        prompt_tokens=outcome.prompt_tokens,
        completion_tokens=outcome.completion_tokens,
        attempts=attempts,
        outcome="missing" if reason else "kept",
        missing_reason=reason,
        missing_detail=failure.reason if failure else None,
        flags=flags,
        removed=removed,
    )
