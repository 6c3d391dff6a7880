"""Asking judges, and what comes of it: one judgment a task, with scores or a reason."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from shiyan.chat import AnyModelParams, Budget, Chat, ChatFailure, ChatReply, ChatRequest, Message
from shiyan.config import ApiModelParams, JudgeParams, LocalModelParams, PromptTexts
from shiyan.judging.parse import Verdict, parse_reply
from shiyan.judging.prompts import FAILED_AGAIN, again_request
from shiyan.judging.tasks import Task, structured_judges
from shiyan.records import Judgment
from shiyan.work import WorkCache, digest

RETRY = "judge_retry"
"""Kind of the work cache: with which messages a judge was asked again after a first request."""


@dataclass
class _Course:
    """What has come of a task so far."""

    task: Task
    attempts: int = 0
    verdict: Verdict | None = None
    reply: ChatReply | None = None
    others: list[tuple[Verdict, ChatReply]] = field(default_factory=list)
    """What was replied besides, in the order in which it came."""
    failure: ChatFailure | None = None
    prompt_tokens: list[int | None] = field(default_factory=list)
    cached_tokens: list[int | None] = field(default_factory=list)
    completion_tokens: list[int | None] = field(default_factory=list)

    def first(self, params: JudgeParams) -> ChatRequest:
        return ChatRequest(
            messages=(Message("user", self.task.text),),
            temperature=params.temperature,
            top_p=params.top_p,
            max_tokens=params.max_tokens,
            # An equal seed would make every repeat the same reply.
            seed=params.seed + self.task.sample_index,
            sample=self.task.sample_index,
            schema=self.task.schema,
        )

    def next(self, params: JudgeParams, chat: Chat, cache: WorkCache) -> ChatRequest:
        """The first request, or the one that says what the last reply was missing.

        The latter is worded by what the parser of its time did not find. Where it was asked
        and answered already, it is the same one again: a better parser finds other problems,
        and would else ask anew what was paid for.
        """
        first = self.first(params)
        if self.reply is None or self.verdict is None:
            return first
        kept = cache.get_json(RETRY, self._retry_key(chat.key(first))) or []
        asked = replace(first, messages=tuple(Message(**message) for message in kept))
        if kept and chat.kept(asked) is not None:
            return asked
        again = again_request(self.task.again, self.task.rubric, self.verdict.problems)
        more = (Message("assistant", self.reply.answer), Message("user", again))
        return replace(first, messages=(*first.messages, *more))

    def remember(
        self, request: ChatRequest, params: JudgeParams, chat: Chat, cache: WorkCache
    ) -> None:
        """Keep how it is asked again, for `next`; before it is, so that no reply is lost."""
        if self.reply is not None:
            key = self._retry_key(chat.key(self.first(params)))
            messages = [asdict(message) for message in request.messages]
            if cache.get_json(RETRY, key) != messages:
                cache.put_json(RETRY, key, messages)

    def _retry_key(self, first: Mapping[str, Any]) -> dict[str, Any]:
        return {"first": first, "attempt": self.attempts, "again": self.task.again}

    def take(self, outcome: ChatReply | ChatFailure, *, is_shared: bool = False) -> None:
        """Keep the better of the verdicts: the one with more scores, the earlier of equals.

        Two are never merged: a judge that scores anew may weigh everything anew.

        Args:
            is_shared: another task asked the same, and its tokens are counted there.
        """
        self.attempts += 1
        self.prompt_tokens.append(0 if is_shared else outcome.prompt_tokens)
        self.completion_tokens.append(0 if is_shared else outcome.completion_tokens)
        if isinstance(outcome, ChatFailure):
            self.failure = self.failure or outcome
            return
        self.cached_tokens.append(0 if is_shared else outcome.cached_tokens)
        is_cut = outcome.finish_reason == "length"
        verdict = parse_reply(outcome.text, self.task.rubric, is_cut=is_cut)
        if self.verdict is None or self.reply is None:
            self.verdict, self.reply = verdict, outcome
        elif verdict.n_scored > self.verdict.n_scored:
            self.others.append((self.verdict, self.reply))
            self.verdict, self.reply = verdict, outcome
        else:
            self.others.append((verdict, outcome))

    @property
    def wants_another(self) -> bool:
        """A reply came and was not complete; a request that failed has been tried enough."""
        return self.failure is None and self.verdict is not None and not self.verdict.is_complete


def judge(
    tasks: Sequence[Task],
    params: JudgeParams,
    models: Mapping[str, AnyModelParams],
    cache: WorkCache,
    budget: Budget,
) -> list[Judgment]:
    """Ask every task's judge and read the replies; judgments in the order of the tasks.

    A reply that cannot be read whole is answered once more (`params.attempts`), saying
    what was missing. Finished replies are in the work cache: a stop loses none, and a
    better parser reads them again without asking.
    """
    judgments: dict[str, Judgment] = {}
    for name in params.judges:
        mine = [task for task in tasks if task.judge == name]
        courses = [_Course(task) for task in mine if task.obstacle is None]
        with Chat(
            name, models[name], cache=cache, at_once=params.requests_at_once, budget=budget
        ) as chat:
            _ask(courses, chat, params, cache)
        for course in courses:
            judgments[course.task.judgment_id] = judgment_of(course)
    return [judgments.get(task.judgment_id) or _unasked(task) for task in tasks]


def _ask(courses: Sequence[_Course], chat: Chat, params: JudgeParams, cache: WorkCache) -> None:
    waiting = list(courses)
    for attempt in range(params.attempts):
        asked: dict[ChatRequest, list[_Course]] = {}
        for course in waiting:
            request = course.next(params, chat, cache)
            course.remember(request, params, chat, cache)
            asked.setdefault(request, []).append(course)
        what = "judgments" if attempt == 0 else "judgments asked again"
        for request, outcome in chat.ask_all(list(asked), what):
            for place, course in enumerate(asked[request]):
                course.take(outcome, is_shared=place > 0)
        waiting = [course for course in waiting if course.wants_another]
        if not waiting:
            return


def first_request(task: Task, params: JudgeParams) -> ChatRequest:
    """What a task asks at first."""
    return _Course(task).first(params)


def still_to_ask(
    tasks: Iterable[Task], chat: Chat, params: JudgeParams, cache: WorkCache
) -> list[ChatRequest]:
    """The next request of every task that the cache does not settle yet; nothing is asked."""
    requests: dict[ChatRequest, None] = {}
    for task in tasks:
        course = _Course(task)
        for _ in range(params.attempts):
            request = course.next(params, chat, cache)
            outcome = chat.kept(request)
            if outcome is None:
                requests[request] = None
                break
            course.take(outcome)
            if not course.wants_another:
                break
    return list(requests)


def judgment_of(course: _Course) -> Judgment:
    """The record of an asked task."""
    task, verdict, reply = course.task, course.verdict, course.reply
    common = {
        "judgment_id": task.judgment_id,
        "item_id": task.item_id,
        "judge": task.judge,
        "rubric": task.rubric.name,
        "prompt_id": task.prompt_id,
        "persona_id": task.persona_id,
        "sample_index": task.sample_index,
        "attempts": max(course.attempts, 1),
        "prompt_tokens": _total(course.prompt_tokens),
        "cached_tokens": _total(course.cached_tokens),
        "completion_tokens": _total(course.completion_tokens),
    }
    if verdict is None or reply is None:
        failure = course.failure
        return Judgment.model_validate(
            common
            | {
                "scores": None,
                "unscored_reason": _told(failure) if failure else "not asked",
                "reply": failure.text if failure else "",
                "reasoning": failure.reasoning if failure else None,
                "finish_reason": failure.finish_reason if failure else None,
            }
        )
    return Judgment.model_validate(
        common
        | {
            "scores": dict(verdict.scores) if verdict.n_scored else None,
            "reasons": dict(verdict.reasons),
            "unscored_reason": _explained(
                verdict, [other for other, _ in course.others], course.failure
            ),
            "repaired": verdict.repaired,
            "reply": reply.text,
            "other_replies": tuple(other.text for _, other in course.others),
            "reasoning": reply.thinking,
            "finish_reason": reply.finish_reason,
            "served_model": reply.model,
        }
    )


def _explained(
    verdict: Verdict, others: Iterable[Verdict], failure: ChatFailure | None
) -> str | None:
    """Why dimensions have no score, which of them another reply scored, and why none did
    where the judge could not be asked again."""
    explanation = verdict.explanation
    if explanation is None:
        return None
    elsewhere = [
        n for n in verdict.problems if any(other.scores[n] is not None for other in others)
    ]
    if elsewhere:
        explanation += (
            f" (scored in another reply, which is not merged into this one, {'、'.join(elsewhere)})"
        )
    return f"{explanation}{FAILED_AGAIN}{_told(failure)}" if failure else explanation


def _told(failure: ChatFailure) -> str:
    return f"{failure.kind}: {failure.reason}"


def _total(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _unasked(task: Task) -> Judgment:
    return Judgment(
        judgment_id=task.judgment_id,
        item_id=task.item_id,
        judge=task.judge,
        rubric=task.rubric.name,
        prompt_id=task.prompt_id,
        persona_id=task.persona_id,
        sample_index=task.sample_index,
        scores=None,
        unscored_reason=task.obstacle,
        reply="",
    )


def made(
    params: JudgeParams, prompts: PromptTexts, models: Mapping[str, AnyModelParams]
) -> dict[str, str | int | float]:
    """How the judgments came to be: judges by their bytes or address, prompts, sampling."""
    return {
        **{f"judge {name}": _identity(models[name]) for name in params.judges},
        "prompt_set": params.prompt_set,
        "prompts": " ".join(params.prompts),
        "prompt_texts_sha256": digest(getattr(prompts, params.prompt_set)),
        "temperature": params.temperature,
        "top_p": params.top_p,
        "max_tokens": params.max_tokens,
        "structured": " ".join(sorted(structured_judges(params, models))) or "no judge",
        "repeats": params.repeats,
        "attempts": params.attempts,
        "seed": params.seed,
    }


def _identity(model: AnyModelParams) -> str:
    if isinstance(model, ApiModelParams):
        return f"{model.model} at {model.base_url}"
    if isinstance(model, LocalModelParams):
        return f"{model.file} sha256:{model.sha256 or 'not pinned'}"
    return f"{model.repository}@{model.revision}"
