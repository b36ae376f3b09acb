"""A parameterized skill Theta: tau -> theta, learned from the policies of some tasks (da Silva, Konidaris, Barto, 2012).

An implementation of ours, not the authors' code. Policies that are alike lie on one smooth surface, a chart; tasks that
want another kind of behaviour lie on another one.

    charts     connected components of the graph of near neighbours over {theta_i}, each parameter in deviations
    chi        tau -> chart: logistic regression, linear in tau, one chart against the others
    Phi_dj     tau -> theta_j within chart d: kernel ridge regression with an RBF kernel
    Theta(tau) = (Phi_d1(tau), ..., Phi_dP(tau)),  d = chi(tau)

The authors use a linear support vector machine for chi and support vector regression for Phi. Both of ours are of the
same class of functions, have solutions of a few lines, and need no further package. Bandwidth and ridge are chosen by
leaving one task out, which kernel ridge has in closed form, and for all parameters of a chart at once: what is linear
between the parameters of all solutions is then true of Theta(tau) too. Chosen for each parameter, the throwing arm
misses by more than its nearest solved task does.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

NEIGHBOURS = 3
FEWEST = 3  # Tasks of a chart; fewer join the nearest chart.
GAP = 5.0  # What is so many times as far as a usual neighbour lies on another chart.
BANDWIDTHS = (0.5, 1.0, 2.0)  # In standard deviations of tau.
RIDGES = (1e-3, 1e-2)  # Where a search ends near the policy that it is after. More, and its tasks are missed.
PRIOR = 1e-3  # Ridge of the classifier: charts that a line parts would have it grow for ever.
NEWTON_STEPS = 50


class Standard(NamedTuple):
    """Rows of numbers in deviations from their mean; what does not vary becomes 0."""

    mean: Float[np.ndarray, "D"]
    scale: Float[np.ndarray, "D"]

    @classmethod
    def of(cls, rows: Float[np.ndarray, "n D"]) -> "Standard":
        spread = rows.std(0)
        return cls(rows.mean(0), np.where(spread > 1e-9, spread, np.inf))

    def __call__(self, rows: Float[np.ndarray, "*n D"]) -> Float[np.ndarray, "*n D"]:
        return (rows - self.mean) / self.scale


class Surface(NamedTuple):
    """Phi_d: kernel ridge regression on the tasks of one chart."""

    tau: Float[np.ndarray, "n Z"]
    bandwidth: float
    weights: Float[np.ndarray, "n P"]
    mean: Float[np.ndarray, "P"]

    def __call__(self, tau: Float[np.ndarray, "m Z"]) -> Float[np.ndarray, "m P"]:
        return self.mean + rbf(tau, self.tau, self.bandwidth) @ self.weights


class ParameterizedSkill(NamedTuple):
    """Theta. Tasks are given in their own units."""

    units: Standard
    labels: Int[np.ndarray, "n"]  # The chart of each task it was learned from.
    planes: Float[np.ndarray, "D 1+Z"]  # Of chi.
    surfaces: tuple[Surface, ...]

    @property
    def num_charts(self) -> int:
        return len(self.surfaces)

    def charts(self, tau: Float[np.ndarray, "m Z"]) -> Int[np.ndarray, "m"]:
        """chi(tau)."""
        return (with_one(self.units(tau)) @ self.planes.T).argmax(1)

    def __call__(self, tau: Float[np.ndarray, "m Z"]) -> Float[np.ndarray, "m P"]:
        chosen, scaled = self.charts(tau), self.units(tau)
        each = np.stack([surface(scaled) for surface in self.surfaces])
        return each[chosen, np.arange(len(tau))]


def fit_skill(
    tau: Float[np.ndarray, "n Z"],
    theta: Float[np.ndarray, "n P"],
    neighbours: int = NEIGHBOURS,
    gap: float = GAP,
    ridges: tuple[float, ...] = RIDGES,
) -> ParameterizedSkill:
    """Theta from tasks and the parameters that solve them. An infinite `gap` makes one chart."""
    tau, theta = np.asarray(tau, float), np.asarray(theta, float)
    units = Standard.of(tau)
    scaled, labels = units(tau), charts_of(theta, neighbours, gap)
    each = range(labels.max() + 1)
    planes = np.stack([logistic(scaled, labels == d) for d in each]) if len(each) > 1 else np.zeros((1, 1 + len(tau.T)))
    surfaces = tuple(fit_surface(scaled[labels == d], theta[labels == d], ridges) for d in each)
    return ParameterizedSkill(units, labels, planes, surfaces)


def charts_of(theta: Float[np.ndarray, "n P"], neighbours: int = NEIGHBOURS, gap: float = GAP) -> Int[np.ndarray, "n"]:
    """The chart of each policy, numbered by first appearance.

    The distance to the k-th neighbour, as it is in the middle of all, is the scale: edges are those up to `gap` times as
    long. Edges to the k nearest alone would cut a chart wherever its samples happen to be sparse.
    """
    rows = Standard.of(np.asarray(theta, float))(theta)
    if len(rows) < 2 * FEWEST:
        return np.zeros(len(rows), int)
    distance = np.sqrt(((rows[:, None] - rows[None]) ** 2).sum(-1))
    np.fill_diagonal(distance, np.inf)
    farthest = np.sort(distance, axis=1)[:, neighbours - 1]
    return _without_fragments(_components(distance <= gap * np.median(farthest)), distance)


def _components(edges: np.ndarray) -> Int[np.ndarray, "n"]:
    """Everyone takes the smallest number among the neighbours, until nothing changes."""
    labels, reach = np.arange(len(edges)), edges | np.eye(len(edges), dtype=bool)
    for _ in range(len(edges)):
        labels = np.where(reach, labels[None], len(edges)).min(1)
    return _numbered(labels)


def _without_fragments(labels: Int[np.ndarray, "n"], distance: Float[np.ndarray, "n n"]) -> Int[np.ndarray, "n"]:
    sizes = np.bincount(labels)
    if sizes.max() < FEWEST:
        return np.zeros_like(labels)
    is_small = sizes[labels] < FEWEST
    nearest = np.where(is_small[None], np.inf, distance).argmin(1)  # Of those that have a chart.
    return _numbered(np.where(is_small, labels[nearest], labels))


def _numbered(labels: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def logistic(tau: Float[np.ndarray, "n Z"], is_positive: np.ndarray) -> Float[np.ndarray, "1+Z"]:
    """[w0, w] of p = 1 / (1 + exp(-w0 - w tau)), by Newton's method; a step that does not help is halved."""
    x, sign = with_one(tau), np.where(is_positive, 1.0, -1.0)

    def loss(w: np.ndarray) -> float:
        return np.logaddexp(0, -sign * (x @ w)).sum() + PRIOR / 2 * w @ w

    w, length = np.zeros(x.shape[1]), 1.0
    for _ in range(NEWTON_STEPS):
        p = 1 / (1 + np.exp(-x @ w))
        gradient = x.T @ (p - is_positive) + PRIOR * w
        hessian = (x * (p * (1 - p))[:, None]).T @ x + PRIOR * np.eye(len(w))
        step = length * np.linalg.solve(hessian, gradient)
        better = loss(w - step) < loss(w)
        w, length = (w - step, 1.0) if better else (w, length / 2)
    return w


def fit_surface(
    tau: Float[np.ndarray, "n Z"], theta: Float[np.ndarray, "n P"], ridges: tuple[float, ...] = RIDGES
) -> Surface:
    """Kernel ridge, (K + ridge I) w = theta, with the bandwidth and the ridge that err least on tasks left out."""
    mean, spread = theta.mean(0), theta.std(0)
    rest, found = (theta - mean) / np.where(spread > 1e-9, spread, np.inf), []
    for width in BANDWIDTHS:
        for ridge in ridges:
            inverse = np.linalg.inv(rbf(tau, tau, width) + ridge * np.eye(len(tau)))
            error = (left_out_errors(inverse, rest) ** 2).sum()
            found.append((error, Surface(tau, width, inverse @ (theta - mean), mean)))
    return min(found, key=lambda one: one[0])[1]


def left_out_errors(inverse: Float[np.ndarray, "n n"], theta: Float[np.ndarray, "n P"]) -> Float[np.ndarray, "n P"]:
    """At each task, of the regression on all others: w_i / [(K + ridge I)^-1]_ii."""
    return inverse @ theta / np.diag(inverse)[:, None]


def rbf(a: Float[np.ndarray, "m Z"], b: Float[np.ndarray, "n Z"], width: float) -> Float[np.ndarray, "m n"]:
    return np.exp(-((a[:, None] - b[None]) ** 2).sum(-1) / (2 * width**2))


def with_one(tau: Float[np.ndarray, "n Z"]) -> Float[np.ndarray, "n 1+Z"]:
    return np.concatenate([np.ones((len(tau), 1)), tau], axis=1)
