"""Randomness from ids: every draw is a pure function of the root seed and the ids folded into it.

A `Key` is two random words, kept apart as scalars: under `vmap` they become two flat arrays, which the CPU compiler
vectorises, where a `(lanes, 2)` array of jax.random keys is walked with a stride (four times slower, measured). The
generator is Threefry-2x32 with 13 rounds, the smallest number that passes BigCrush (Salmon et al., 2011); with 20
rounds it is bit for bit the generator of jax.random.

Use a key once: either `fold` it into more keys, or read its two words with `uniforms` or `normals`.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt32

Id = int | Int[Array, "..."] | UInt32[Array, "..."]
Word = UInt32[Array, "..."] | UInt32[np.ndarray, "..."] | np.uint32

ROUNDS = 13
MOST_UNROLLED = 2  # Blocks written out in a row; more of them are a loop, which compiles sooner.
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


class Key(NamedTuple):
    """Two random words: a key to fold ids into, or the draw itself."""

    hi: Word
    lo: Word


@functools.partial(jax.jit, static_argnames="rounds")  # Traced once and called: unrolled rounds are slow to trace.
def threefry(key: Key, counter_hi: Word, counter_lo: Word, rounds: int = ROUNDS) -> Key:
    """One Threefry-2x32 block: the counter, encrypted under the key."""
    schedule = (key.hi, key.lo, key.hi ^ key.lo ^ jnp.uint32(0x1BD11BDA))
    x, y = counter_hi + schedule[0], counter_lo + schedule[1]
    for r in range(rounds):
        rotation = _ROTATIONS[(r // 4) % 2][r % 4]
        x = x + y
        y = x ^ ((y << jnp.uint32(rotation)) | (y >> jnp.uint32(32 - rotation)))
        if r % 4 == 3:
            block = r // 4 + 1
            x, y = x + schedule[block % 3], y + schedule[(block + 1) % 3] + jnp.uint32(block)
    return Key(x, y)


def root(seed: int) -> Key:
    """The key that everything in a run is folded from; seeds up to 2^63 are all different."""
    return Key(np.uint32((int(seed) >> 32) & 0xFFFFFFFF), np.uint32(int(seed) & 0xFFFFFFFF))


def fold(key: Key, *ids: Id) -> Key:
    """A new key for these ids; `fold(key, a, b)` is one block with counter (a, b)."""
    if not 1 <= len(ids) <= 2:
        raise ValueError("fold takes one or two ids")
    hi, lo = (ids[0], ids[1]) if len(ids) == 2 else (0, ids[0])
    return threefry(key, _as_word(hi), _as_word(lo))


def _as_word(number: Id) -> Word:
    # Python integers are wrapped by hand: JAX would refuse 2^31, and -1.
    return jnp.uint32(number & 0xFFFFFFFF) if isinstance(number, int) else number.astype(jnp.uint32)


def unit(word: Word) -> Float[Array, "..."]:
    """A float in [0, 1) from the word's upper 23 bits."""
    return jax.lax.bitcast_convert_type((word >> jnp.uint32(9)) | jnp.uint32(0x3F800000), jnp.float32) - 1.0


def uniforms(key: Key) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Two independent numbers in [0, 1)."""
    return unit(key.hi), unit(key.lo)


def normals(key: Key) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Two independent standard normal numbers."""
    return tuple(normal(unit(word)) for word in key)


def normal(uniform: Float[Array, "..."]) -> Float[Array, "..."]:
    """A standard normal number from one in [0, 1), by inversion."""
    # erf_inv is infinite at -1, which one word in 2^23 would hit: half a grid cell keeps it inside.
    return math.sqrt(2) * jax.lax.erf_inv(2 * uniform - (1 - 2**-23))


def many_uniforms(key: Key, count: int) -> tuple[Float[Array, "..."], ...]:
    """`count` independent numbers in [0, 1); up to two of them cost nothing beyond the key."""
    if count <= 2:
        return uniforms(key)[:count]
    num_blocks = (count + 1) // 2
    if num_blocks <= MOST_UNROLLED:
        blocks = [uniforms(fold(key, i)) for i in range(num_blocks)]
    else:
        _, (first, second) = jax.lax.scan(lambda _, i: (None, uniforms(fold(key, i))), None, jnp.arange(num_blocks))
        blocks = [(first[i], second[i]) for i in range(num_blocks)]
    return tuple(number for pair in blocks for number in pair)[:count]


def host_generator(seed: int, *ids: int) -> np.random.Generator:
    """A NumPy generator for draws at the start of a run, which are not worth compiling; also a function of ids
    alone."""
    # Two words for the seed, always: NumPy would take the ids for its upper half otherwise.
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed >> 32, seed & 0xFFFFFFFF, *ids])))
