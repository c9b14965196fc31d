"""Sizes resources on change only, beside the ticks, and remembers the answers.

A sizing takes from milliseconds to seconds; a decision reads its table in microseconds. So no tick waits for one: it
asks, and what is in force is decided on until the new answer is there. The questions are answered one after the other
in a thread of their own, in fair turns between namespaces. An answer that there is no size is one as well.

A pinned configuration is compared with what would be chosen today while nothing else waits: advice can wait.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from firsttoken_operator.act.status import Answer
from firsttoken_operator.api.benchmark_profile import BenchmarkProfile
from firsttoken_operator.api.gpu_pool import GPUPool
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.domain import Reason, Unsized
from firsttoken_operator.observe.resources import Stored
from firsttoken_operator.observe.tenancy import Tenancy
from firsttoken_operator.run import question
from firsttoken_operator.run.question import Question, QuestionSources
from firsttoken_operator.run.turns import Turns
from firsttoken_sizing.request import SizingRequest

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Kept:
    """An answer that outlives the process. `generations`: of the resources that it is in force for, by uid."""

    answer: Answer
    generations: Mapping[str, int]


class Sizer:
    """Answers of all resources. Used on one event loop; `close` it when done.

    `answered` is told when nothing waits any more and a tick can decide on new answers.
    """

    def __init__(self, answered: Callable[[], None] = lambda: None) -> None:
        self._answered = answered
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="sizing")
        self._questions: dict[str, Question] = {}
        """Questions that the resources ask now, by uid."""
        self._known: dict[str, Answer] = {}
        """Answers by content."""
        self._in_force: dict[str, Question] = {}
        """Questions by uid: the last one of each resource that was answered."""
        self._turns = Turns[Question]()
        self._working: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """Number of resources that wait for an answer to what they ask now, the one that is being sized included."""
        return sum(self._in_force.get(uid) is not asked for uid, asked in self._questions.items())

    @property
    def is_working(self) -> bool:
        """True while a question is being answered."""
        return self._working is not None and not self._working.done()

    def close(self) -> None:
        """Abandon what waits."""
        if self._working is not None:
            self._working.cancel()
        self._executor.shutdown(wait=False, cancel_futures=True)

    def kept(self) -> dict[str, Kept]:
        """Keep for the next process, by content, the answers of the sizing model that are in force."""
        generations: dict[int, dict[str, int]] = defaultdict(dict)
        for uid, asked in self._in_force.items():
            generations[id(self._known.get(asked.content))][uid] = asked.generation
        return {
            content: Kept(answer, generations[id(answer)])
            for content, answer in self._known.items()
            if answer.declared is not None
        }

    def restore(self, kept: Mapping[str, Kept]) -> None:
        """Take over what the last process knew: in force for its resources, and the answer to who asks the same."""
        for content, each in kept.items():
            self._known[content] = each.answer
            for uid, generation in each.generations.items():
                self._in_force[uid] = Question("", "", uid, generation, None, content, None)

    async def answers(
        self,
        resources: Iterable[Stored[InferenceDeployment]],
        pools: Iterable[Stored[GPUPool]],
        profiles: Iterable[Stored[BenchmarkProfile]],
        tenancy: Tenancy,
    ) -> Mapping[str, Answer]:
        """The answer in force of every resource, by uid, where there is one; what is not up to date is queued."""
        held, sources = list(resources), QuestionSources(pools, profiles, tenancy)
        # NB: in a thread, because a profile that changes makes the questions of all resources of its model anew.
        self._questions = await asyncio.to_thread(_questions, held, sources, self._questions)
        waiting = {uid: asked for uid, asked in self._questions.items() if not self._settle(asked)}
        self._turns.keep(waiting.keys())
        for uid, asked in waiting.items():
            self._turns.put(asked.namespace, uid, asked)
        self._forget({stored.uid for stored in held})
        if not self.is_working:
            self._working = asyncio.create_task(self._work(), name="sizing")
        unreadable = {
            stored.uid: Answer(Unsized(Reason.INVALID_SPEC, stored.problem)) for stored in held if stored.parsed is None
        }
        return {uid: self._answer(asked) for uid, asked in self._in_force.items()} | unreadable

    def _settle(self, asked: Question) -> bool:
        """Tell whether the answer is known; it is in force then."""
        if asked.refusal is None and asked.content not in self._known:
            return False
        self._in_force[asked.uid] = asked
        return True

    def _answer(self, asked: Question) -> Answer:
        answer = asked.refusal or self._known[asked.content]
        is_outdated = self._questions.get(asked.uid) is not asked
        return replace(answer, generation=asked.generation, is_outdated=is_outdated)

    def _forget(self, uids: set[str]) -> None:
        """Drop what only resources other than these asked for."""
        self._in_force = {uid: asked for uid, asked in self._in_force.items() if uid in uids}
        in_force = self._in_force.values()
        contents = {asked.content for asked in in_force}
        # NB: an answer has two names until the configuration that it chose is pinned.
        open_ = {id(self._known[a.content]) for a in in_force if a.request is not None and a.request.pinned is None}
        self._known = {c: answer for c, answer in self._known.items() if c in contents or id(answer) in open_}

    async def _work(self) -> None:
        """Answer what waits, then compare what is pinned; ends when nothing is left to do."""
        has_answered = False
        while True:
            if (turn := self._turns.take()) is not None:
                namespace, asked = turn
                await self._size(namespace, asked)
                has_answered = True
            elif has_answered:
                has_answered = False
                self._answered()
            elif (pinned := self._not_compared()) is not None:
                await self._compare(*pinned)
            else:
                return

    async def _size(self, namespace: str, asked: Question) -> None:
        if asked.request is not None and asked.content not in self._known:
            found, cpu_seconds = await self._run(question.answers, asked.request, asked.name)
            self._turns.charge(namespace, cpu_seconds)
            self._known |= found
        # NB: also where it was edited meanwhile, or one that is edited all the time would never have a new size.
        self._in_force[asked.uid] = asked

    def _not_compared(self) -> tuple[str, SizingRequest] | None:
        """Content and request of a pinned configuration that is in force and was not compared yet."""
        for asked in self._in_force.values():
            if asked.request is not None and not self._known[asked.content].compared:
                return asked.content, asked.request
        return None

    async def _compare(self, content: str, request: SizingRequest) -> None:
        answer = self._known[content]
        recommended, _ = await self._run(question.better, request, answer)
        self._known[content] = replace(answer, recommended=recommended, compared=True)

    async def _run(self, work: Callable[..., Result], *arguments: object) -> tuple[Result, float]:
        """Run the work: its result, and the CPU seconds that it took."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, _timed, work, arguments)


def _questions(
    held: Iterable[Stored[InferenceDeployment]], sources: QuestionSources, before: Mapping[str, Question]
) -> dict[str, Question]:
    return {
        stored.uid: sources.question(stored, stored.parsed, before.get(stored.uid))
        for stored in held
        if stored.parsed is not None
    }


def _timed(work: Callable[..., Result], arguments: Iterable[object]) -> tuple[Result, float]:
    began = time.thread_time()
    return work(*arguments), time.thread_time() - began
