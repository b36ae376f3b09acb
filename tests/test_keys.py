"""The random numbers: the generator is Threefry, bit for bit; thirteen rounds of it, used as we use it, look random."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import threefry_2x32
from scipy import stats

from asap.base.keys import ROUNDS, Key, fold, host_generator, many_uniforms, normals, root, threefry, uniforms, unit

SIZE = 2**18  # Of every sample: one shape, compiled once.
LANES = 2**9
TOP = 2**32 - 1
Words = np.ndarray  # of uint32
Generator = Callable[[Key, jax.Array, jax.Array], Key]


def encrypt(generator: Generator, key_hi, key_lo, hi, lo) -> tuple[Words, Words]:
    """`SIZE` draws of a generator; the arguments are broadcast."""
    arguments = [np.broadcast_to(np.asarray(word), SIZE).astype(np.uint32) for word in (key_hi, key_lo, hi, lo)]
    drawn = generator(Key(*map(jnp.asarray, arguments[:2])), *map(jnp.asarray, arguments[2:]))
    return np.asarray(drawn.hi), np.asarray(drawn.lo)


# ---- The generator ------------------------------------------------------------------------------------------------

# Random123, tests/kat_vectors: rounds, key, counter, result.
KNOWN_ANSWERS = [
    (13, (0, 0), (0, 0), (0x9D1C5EC6, 0x8BD50731)),
    (13, (TOP, TOP), (TOP, TOP), (0xFD36D048, 0x2D17272C)),
    (13, (0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xBA3E4725, 0xF27D669E)),
    (20, (0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    (20, (TOP, TOP), (TOP, TOP), (0x1CB996FC, 0xBB002BE7)),
    (20, (0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize("rounds, key, counter, answer", KNOWN_ANSWERS)
def test_the_authors_known_answers(rounds, key, counter, answer):
    drawn = threefry(Key(*map(jnp.uint32, key)), *map(jnp.uint32, counter), rounds)
    assert (int(drawn.hi), int(drawn.lo)) == answer


def test_twenty_rounds_are_the_generator_of_jax():
    rng = np.random.default_rng(0)
    hi, lo = rng.integers(0, 2**32, (2, 1000), dtype=np.uint32)
    for seed in (0, 1, 2**32, 2**63 - 1):
        key = root(seed)
        ours = threefry(key, jnp.asarray(hi), jnp.asarray(lo), rounds=20)
        theirs = threefry_2x32(jnp.stack([key.hi, key.lo]), jnp.concatenate([jnp.asarray(hi), jnp.asarray(lo)]))
        np.testing.assert_array_equal(np.concatenate([ours.hi, ours.lo]), theirs)


def test_twenty_rounds_are_jax_s_fold_in():
    for seed, number in ((0, 0), (5, 7), (2**40, 2**31 - 1)):
        ours = threefry(root(seed), jnp.uint32(0), jnp.uint32(number), rounds=20)
        key = jax.random.wrap_key_data(jnp.stack(root(seed)), impl="threefry2x32")
        theirs = jax.random.key_data(jax.random.fold_in(key, number))
        assert [int(ours.hi), int(ours.lo)] == theirs.tolist()


def test_we_use_thirteen():
    assert ROUNDS == 13
    assert fold(root(3), 4, 5) == threefry(root(3), jnp.uint32(4), jnp.uint32(5), rounds=13)


# ---- Keys from ids ------------------------------------------------------------------------------------------------


def pair(key: Key) -> tuple[int, int]:
    return int(key.hi), int(key.lo)


def test_the_order_of_ids_matters():
    assert pair(fold(root(0), 1, 2)) != pair(fold(root(0), 2, 1))
    assert pair(fold(fold(root(0), 1), 2)) != pair(fold(fold(root(0), 2), 1))


def test_seeds_up_to_the_largest_are_distinct():
    near = [base + offset for base in (0, 2**16, 2**31, 2**32, 2**33, 2**62) for offset in range(3)]
    seeds = [*near, 2**31 - 1, 2**32 - 1, 2**63 - 2, 2**63 - 1]
    assert len({pair(root(seed)) for seed in seeds}) == len(seeds)
    assert len({pair(fold(root(seed), 0)) for seed in seeds}) == len(seeds)


def test_no_id_of_32_bits_is_out_of_range():
    for number in (2**31 - 1, 2**31, 2**32 - 1):
        assert pair(fold(root(0), number)) == pair(fold(root(0), jnp.uint32(number)))


def test_the_host_s_generator_is_a_function_of_ids():
    ids = [(0, 0), (0, 1), (1, 0), (2**32, 0), (2**32, 1), (2**63 - 1, 0), (2**63 - 2, 0)]
    assert len({host_generator(*each).random() for each in ids}) == len(ids)
    assert host_generator(5, 1).random() == host_generator(5, 1).random()


@pytest.mark.parametrize("ids", [(), (1, 2, 3)])
def test_one_or_two_ids(ids):
    with pytest.raises(ValueError, match="one or two ids"):
        fold(root(0), *ids)


def test_a_batch_of_keys_is_the_keys_one_by_one():
    batch = jax.vmap(lambda lane, step: fold(fold(root(9), lane), step, 3))(jnp.arange(5), jnp.arange(5) + 7)
    alone = [pair(fold(fold(root(9), lane), lane + 7, 3)) for lane in range(5)]
    assert list(zip(batch.hi.tolist(), batch.lo.tolist())) == alone


@pytest.mark.parametrize("count", range(1, 7))
def test_many_numbers_are_different_numbers(count):
    numbers = [float(number) for number in many_uniforms(fold(root(1), 0), count)]
    assert len(numbers) == len(set(numbers)) == count


# ---- From words to numbers ----------------------------------------------------------------------------------------


def test_the_ends_of_the_unit_interval():
    assert unit(jnp.uint32(0)) == 0.0
    assert unit(jnp.uint32(TOP)) == 1 - 2**-23
    assert unit(jnp.uint32(2**31)) == 0.5


@pytest.mark.parametrize("compile_it", [False, True])
def test_normals_are_finite_and_symmetric_at_the_extreme_words(compile_it):
    words = jnp.asarray([0, 1, 511, 512, 2**31 - 1, 2**31, TOP - 512, TOP - 511, TOP - 1, TOP], jnp.uint32)
    draw = jax.jit(normals) if compile_it else normals
    for numbers in draw(Key(words, words[::-1])):
        assert np.isfinite(numbers).all()
        np.testing.assert_allclose(numbers, -numbers[::-1], rtol=1e-6)
        assert 5.0 < np.abs(numbers).max() < 6.0


# ---- Does it look random? -----------------------------------------------------------------------------------------


def draw_stream(generator: Generator, stream: str) -> tuple[Words, Words]:
    """The ways in which a run counts: over lanes, steps, seeds, and over the steps of lanes that were folded before."""
    ids, seed = np.arange(SIZE), 7
    if stream == "lanes":
        return encrypt(generator, 0, seed, 0, ids)
    if stream == "steps":
        return encrypt(generator, 0, seed, ids, 3)
    if stream == "seeds":
        return encrypt(generator, 0, ids, 0, 0)
    if stream == "large seeds":
        return encrypt(generator, ids, 0, 0, 0)
    inner, outer = (ids % LANES, ids // LANES) if stream == "steps of lanes" else (ids // LANES, ids % LANES)
    lane_keys = encrypt(generator, 0, seed, 0, outer)
    return encrypt(generator, *lane_keys, inner, 1)


STREAMS = ("lanes", "steps", "seeds", "large seeds", "steps of lanes", "lanes of steps")


def flat(observations: np.ndarray, bins: int) -> float:
    return stats.chisquare(np.bincount(observations, minlength=bins)).pvalue


def uniformity(hi: Words, lo: Words) -> list[float]:
    return [flat((word >> shift) & 255, 256) for word in (hi, lo) for shift in (0, 8, 16, 24)]


def serial(hi: Words, lo: Words) -> list[float]:
    """Neighbours, and the two words of one draw: no correlation, and no joint pattern of the leading or last bits."""
    found = []
    for first, second in ((hi[:-1], hi[1:]), (lo[:-1], lo[1:]), (hi, lo), (lo[:-1], hi[1:])):
        found.append(stats.pearsonr(first.astype(float), second.astype(float)).pvalue)
        found.append(flat((first >> 28) * 16 + (second >> 28), 256))
        found.append(flat((first & 15) * 16 + (second & 15), 256))
        ones = int(np.bitwise_count(first ^ second).sum())
        found.append(2 * stats.norm.sf(abs(ones - 16 * len(first)) / np.sqrt(8 * len(first))))
    return found


def spacings(hi: Words, lo: Words) -> list[float]:
    """Marsaglia's birthdays: equal gaps between 512 sorted birthdays in a year of 2^24 days are Poisson(2)."""
    found = []
    for days in (hi >> 8, hi & 0xFFFFFF, lo >> 8, lo & 0xFFFFFF):
        gaps = np.sort(np.diff(np.sort(days.reshape(-1, 512).astype(np.int64))))
        equal = int((np.diff(gaps) == 0).sum())
        mean = 2.0 * len(gaps)
        found.append(2 * stats.norm.sf(abs(equal - mean) / np.sqrt(mean)))
    return found


def collisions(hi: Words, lo: Words) -> list[float]:
    """Equal words among SIZE of them are Poisson(SIZE^2 / 2^33) = Poisson(8); equal draws do not happen."""
    expected = SIZE**2 / 2**33
    repeated = [SIZE - len(np.unique(word)) for word in (hi, lo)]
    draws = np.unique((hi.astype(np.uint64) << np.uint64(32)) | lo)
    poisson = [2 * min(stats.poisson.cdf(n, expected), stats.poisson.sf(n - 1, expected)) for n in repeated]
    return [*poisson, float(len(draws) == SIZE)]


def distributions(hi: Words, lo: Words) -> list[float]:
    key = Key(jnp.asarray(hi), jnp.asarray(lo))
    found = []
    for numbers in uniforms(key):
        found.append(stats.kstest(np.asarray(numbers), "uniform").pvalue)
    for numbers in map(np.asarray, normals(key)):
        assert np.isfinite(numbers).all()
        found.append(stats.kstest(numbers, "norm").pvalue)
        for edge in (3.0, 4.0):
            found.append(stats.binomtest(int((np.abs(numbers) > edge).sum()), SIZE, 2 * stats.norm.sf(edge)).pvalue)
    return found


def runs(hi: Words, lo: Words) -> list[float]:
    """Wald and Wolfowitz's runs on one side of the median, for the first and the last bit; and runs up."""
    found = []
    for word in (hi, lo):
        for bit in (word >> 31, word & 1):
            changes = int((bit[1:] != bit[:-1]).sum())
            found.append(2 * stats.norm.sf(abs(changes - (SIZE - 1) / 2) / np.sqrt((SIZE - 1) / 4)))
        rises = word[1:] > word[:-1]
        turns = int((rises[1:] != rises[:-1]).sum())
        mean, variance = 2 * (SIZE - 2) / 3, (16 * SIZE - 29) / 90
        found.append(2 * stats.norm.sf(abs(turns - mean) / np.sqrt(variance)))
    return found


def avalanche(generator: Generator) -> list[float]:
    """A flip of any of the 128 bits of key and counter flips each of the 64 bits that come out half of the time."""
    trials = SIZE // 128
    inputs = np.random.default_rng(1).integers(0, 2**32, (trials, 1, 4), dtype=np.uint32)
    flips = np.zeros((1, 128, 4), np.uint32)
    flips[0, np.arange(128), np.arange(128) // 32] = np.uint32(1) << (np.arange(128) % 32).astype(np.uint32)

    def bits(words: np.ndarray) -> np.ndarray:
        drawn = np.stack(encrypt(generator, *words.reshape(-1, 4).T), axis=-1)
        return np.unpackbits(drawn.view(np.uint8).reshape(trials, 128, 8), axis=-1)

    flipped = bits(inputs ^ flips) != bits(inputs ^ np.zeros_like(flips))
    deviations = (flipped.sum(0) - trials / 2) / np.sqrt(trials / 4)
    worst = 2 * stats.norm.sf(np.abs(deviations).max()) * deviations.size
    return [worst, stats.chi2.sf(np.square(deviations).sum(), deviations.size)]


TESTS = (uniformity, serial, spacings, collisions, distributions, runs)


def passes(p_values: list[float], alpha: float = 1e-4) -> bool:
    """Whether all hold together; a perfect generator fails once in 1/alpha times."""
    return min(p_values) * len(p_values) > alpha


@pytest.mark.parametrize("stream", STREAMS)
def test_a_stream_of_draws_looks_random(stream):
    hi, lo = draw_stream(threefry, stream)
    assert [test.__name__ for test in TESTS if not passes(test(hi, lo), 1e-4 / len(STREAMS))] == []


def test_every_bit_of_key_and_counter_matters():
    assert passes(avalanche(threefry))


# ---- Would these tests notice? ------------------------------------------------------------------------------------


def few_rounds(key: Key, hi: jax.Array, lo: jax.Array) -> Key:
    return threefry(key, hi, lo, rounds=4)


def counter_itself(key: Key, hi: jax.Array, lo: jax.Array) -> Key:
    return Key(key.hi ^ hi, key.lo ^ lo)


def one_word_twice(key: Key, hi: jax.Array, lo: jax.Array) -> Key:
    drawn = threefry(key, hi, lo)
    return Key(drawn.hi, drawn.hi)


def same_for_neighbouring_seeds(key: Key, hi: jax.Array, lo: jax.Array) -> Key:
    return threefry(Key(key.hi, key.lo | 1), hi, lo)


def a_thousandth_is_missing(key: Key, hi: jax.Array, lo: jax.Array) -> Key:
    drawn = threefry(key, hi, lo)
    return Key(jnp.where(drawn.hi > jnp.uint32(TOP // 1000 * 999), drawn.hi // 2, drawn.hi), drawn.lo)


def sometimes_as_before(key: Key, hi: jax.Array, lo: jax.Array) -> Key:
    """One draw in fifty repeats the first word of the draw before it."""
    drawn, before = threefry(key, hi, lo), threefry(key, hi, lo - 1)
    return Key(jnp.where(drawn.lo % 50 == 0, before.hi, drawn.hi), drawn.lo)


def even_spacings(key: Key, hi: jax.Array, lo: jax.Array) -> Key:
    """A linear congruential generator: flat, but its points form a lattice."""
    return Key(lo * jnp.uint32(1664525) + jnp.uint32(1013904223), threefry(key, hi, lo).lo)


@pytest.mark.parametrize(
    "generator, stream, test",
    [
        (few_rounds, "lanes", uniformity),
        (few_rounds, "seeds", runs),
        (counter_itself, "steps", distributions),
        (one_word_twice, "lanes", serial),
        (same_for_neighbouring_seeds, "seeds", serial),
        (same_for_neighbouring_seeds, "seeds", collisions),
        (a_thousandth_is_missing, "lanes", uniformity),
        (a_thousandth_is_missing, "steps of lanes", distributions),
        (sometimes_as_before, "lanes", serial),
        (sometimes_as_before, "lanes", collisions),
        (even_spacings, "lanes", spacings),
        (even_spacings, "lanes", runs),
    ],
)
def test_the_battery_rejects(generator, stream, test):
    assert not passes(test(*draw_stream(generator, stream)))


@pytest.mark.parametrize("generator", [few_rounds, counter_itself, same_for_neighbouring_seeds])
def test_the_avalanche_rejects(generator):
    assert not passes(avalanche(generator))
