"""ELLA: what tasks share is a basis L, and each task has a sparse code s_t (after Ruvolo and Eaton, 2013; an
implementation of ours and not the authors' code).

    min_L  1/T sum_t min_{s_t} { |alpha_t - L s_t|^2_{Gamma_t} + mu |s_t|_1 } + lam |L|^2

alpha_t is what learning task t alone has found, and Gamma_t half of the Hessian of its loss there. A task that is
learned:

    if it was seen before:   A -= (s_t s_t^T) kron Gamma_t,   b -= s_t kron (Gamma_t alpha_t)
    columns of L that are 0 are drawn anew: from L = 0 every code is 0, and stays so
    s_t = lasso(Gamma_t^{1/2} L, Gamma_t^{1/2} alpha_t, mu)
    A += (s_t s_t^T) kron Gamma_t,   b += s_t kron (Gamma_t alpha_t)
    vec(L) = (A / T + lam I)^-1 b / T
"""

import math
from collections.abc import Hashable, Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

MOST_SWEEPS, SETTLED = 1000, 1e-9  # Of the lasso: how often over all numbers, and the change that ends it.
DRAWN_SCALE = 1.0  # Of a column that was 0.


class Lesson(NamedTuple):
    """What is kept of a task."""

    alpha: Float[np.ndarray, "d"]
    gamma: Float[np.ndarray, "d d"]
    s: Float[np.ndarray, "k"]  # Its code when it was learned last.


class Knowledge(NamedTuple):
    """All that was learned. A function that learns returns new knowledge and leaves the old as it was."""

    L: Float[np.ndarray, "d k"]
    A: Float[np.ndarray, "kd kd"]
    b: Float[np.ndarray, "kd"]
    lessons: Mapping[Hashable, Lesson]  # By task.

    @property
    def mean_code(self) -> Float[np.ndarray, "k"]:
        """Of the tasks so far: what can be said of a task that nobody has seen."""
        codes = [lesson.s for lesson in self.lessons.values()]
        return np.mean(codes, axis=0) if codes else np.zeros(self.L.shape[1])


def nothing_known(L: Float[np.ndarray, "d k"]) -> Knowledge:
    """Before the first task, with a basis to begin with."""
    return Knowledge(L, np.zeros((L.size, L.size)), np.zeros(L.size), {})


def learn_task(
    known: Knowledge,
    task: Hashable,
    alpha: Float[np.ndarray, "d"],
    gamma: Float[np.ndarray, "d d"],
    mu: float,
    lam: float,
    generator: np.random.Generator,
) -> Knowledge:
    """The update of the first lines of this file; `generator` is for columns that are 0."""
    known = known._replace(L=without_zero_columns(known.L, generator))
    return _relearned(known, task, Lesson(alpha, gamma, code(known.L, alpha, gamma, mu)), lam)


def learn_first_task(
    known: Knowledge, task: Hashable, alpha: Float[np.ndarray, "d"], gamma: Float[np.ndarray, "d d"], lam: float
) -> Knowledge:
    """One of the first k tasks, which has a column of L of its own: s_t = e_t."""
    number = len(known.lessons)
    return _relearned(known, task, Lesson(alpha, gamma, np.eye(known.L.shape[1])[number]), lam)


def _relearned(known: Knowledge, task: Hashable, lesson: Lesson, lam: float) -> Knowledge:
    d, k = known.L.shape
    A, b, lessons = known.A, known.b, dict(known.lessons)
    for sign, part in ((-1, lessons.get(task)), (1, lesson)):
        if part is not None:
            A = A + sign * np.kron(np.outer(part.s, part.s), part.gamma)
            b = b + sign * np.kron(part.s, part.gamma @ part.alpha)
    lessons[task] = lesson
    L = np.linalg.solve(A / len(lessons) + lam * np.eye(k * d), b / len(lessons))
    return Knowledge(L.reshape(k, d).T, A, b, lessons)  # vec is by columns.


def code(
    L: Float[np.ndarray, "d k"], alpha: Float[np.ndarray, "d"], gamma: Float[np.ndarray, "d d"], mu: float
) -> Float[np.ndarray, "k"]:
    """s = argmin |alpha - L s|^2_Gamma + mu |s|_1."""
    root = square_root(gamma)
    return lasso(root @ L, root @ alpha, mu)


def lasso(X: Float[np.ndarray, "n k"], y: Float[np.ndarray, "n"], mu: float) -> Float[np.ndarray, "k"]:
    """s = argmin |y - X s|^2 + mu |s|_1, one number after the other: each is shrunk by mu / 2 towards 0.

    In numbers of Python: codes are short, and arrays of a few numbers would take ten times longer.
    """
    gram, moment = (X.T @ X).tolist(), (X.T @ y).tolist()
    s, used = [0.0] * len(moment), [j for j in range(len(moment)) if gram[j][j] > 0]
    for _ in range(MOST_SWEEPS):
        largest_change = 0.0
        for j in used:
            alone = moment[j] - sum(g * v for g, v in zip(gram[j], s)) + gram[j][j] * s[j]
            new = math.copysign(max(abs(alone) - mu / 2, 0.0), alone) / gram[j][j]
            largest_change, s[j] = max(largest_change, abs(new - s[j])), new
        if largest_change <= SETTLED * (1 + max(map(abs, s))):
            break
    return np.asarray(s)


def square_root(gamma: Float[np.ndarray, "d d"]) -> Float[np.ndarray, "d d"]:
    """The symmetric one. Rounding makes small eigenvalues negative: they count as 0, and the root stays real."""
    values, vectors = np.linalg.eigh((gamma + gamma.T) / 2)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def without_zero_columns(L: Float[np.ndarray, "d k"], generator: np.random.Generator) -> Float[np.ndarray, "d k"]:
    drawn = DRAWN_SCALE * generator.standard_normal(L.shape)
    return np.where((L == 0).all(0), drawn, L)


def parameters(known: Knowledge, task: Hashable, mu: float) -> Float[np.ndarray, "d"]:
    """theta_t = L s_t, with the code that fits the L of now."""
    lesson = known.lessons[task]
    return known.L @ code(known.L, lesson.alpha, lesson.gamma, mu)


def regression(
    X: Float[np.ndarray, "n d"], y: Float[np.ndarray, "n"], ridge: float
) -> tuple[Float[np.ndarray, "d"], Float[np.ndarray, "d d"]]:
    """alpha and Gamma of a task of regression: loss |y - X alpha|^2 / n + ridge |alpha|^2."""
    gamma = X.T @ X / len(y) + ridge * np.eye(X.shape[1])
    return np.linalg.solve(gamma, X.T @ y / len(y)), gamma
