"""What is wrong in rules is told in one line with file, line, column and a cure, and a mark under the place.

Never a traceback, never a guess. Each row has a text, the place, and the words of the message.
"""

import ast
import re
import time
from pathlib import Path

import pytest
from test_rules_reading import ARM, CARTPOLE, LAKE, METRES, PENDULUM, PLAIN, TASKS

import asap.policy.rules
from asap.base.errors import UserError
from asap.policy.rules.names import Limits
from asap.policy.rules.read import read_rules
from asap.policy.rules.rulebook import Vocabulary
from asap.policy.rules.source import RulesError, decoded

CARTPOLE_ERRORS = [
    ("if pole angle > 5: push left", "1:18", "expected `then` before ':'; write `if TEST then ACTION`"),
    ("if pole angle > 5:\n  push left", "1:18", "expected `then` before ':'; write `if TEST then ACTION`"),
    ("if (pole angle > 5) then push left", "1:16", "expected `)` before '>'; comparisons stand without brackets"),
    ("elif pole angle > 5 then push left", "1:1", "elif: no such action; cases begin with `if` or `otherwise`"),
    (
        "if pole angle > 5 then push left\nelif pole angle > 4 then push right",
        "2:1",
        "expected a case; cases begin with `if` or `otherwise`",
    ),
    ("if pole angel > 5 then push left", "1:4", "pole angel: no such observation; did you mean 'pole angle'?"),
    ("if pole angle > 5 then pusch left", "1:24", "pusch left: no such action; did you mean 'push left'?"),
    (
        "if pole > 5 then push left",
        "1:4",
        "pole: no such observation; choose from cart position, cart velocity, pole angle, pole angular velocity",
    ),
    ('if "pole angel" > 5 then push left', "1:4", "pole angel: no such observation; did you mean 'pole angle'?"),
    ("if pole angle > 5 then push", "1:24", "push: no such action; did you mean 'push left'?"),
]

PLAIN_ERRORS = [
    ("if x == 5 then a", "1:6", "expected a comparison; numbers are compared by > or <"),
    ("if x = 5 then a", "1:6", "expected a comparison; numbers are compared by > or <"),
    ("if x != 5 then a", "1:6", "expected a comparison; numbers are compared by > or <"),
    ("if x <> 5 then a", "1:7", "did not expect '>' here; numbers are compared by > or <"),
    ("if x ≠ 5 then a", "1:6", "expected a comparison; numbers are compared by > or <"),
    ("if x => 5 then a", "1:6", "expected a comparison; written >= or <="),
    ("if x =< 5 then a", "1:6", "expected a comparison; written >= or <="),
    ("if x is 5 then a", "1:6", "expected a comparison; numbers are compared by > or <"),
    ("if x > 5 && y > 3 then a", "1:10", "expected `then` before '&&'; tests are joined by `and`"),
    ("if x > 5 & y > 3 then a", "1:10", "expected `then` before '&'; tests are joined by `and`"),
    (
        "if x > 5 or y > 3 then a",
        "1:10",
        "expected `then` before 'or'; tests are joined by `and` alone: write a case for each",
    ),
    (
        "if x > 5 || y > 3 then a",
        "1:10",
        "expected `then` before '||'; tests are joined by `and` alone: write a case for each",
    ),
    ("if not x > 5 then a", "1:4", "not: no such observation; turn the comparison round: < in place of >"),
    ("if x > 5 and not y > 3 then a", "1:14", "not: no such observation; turn the comparison round: < in place of >"),
    ("if !x > 5 then a", "1:4", "!x: no such observation; turn the comparison round: < in place of >"),
    ("a (90)", "1:6", "expected `%` before ')'; as in `(90 %)`"),
    ("a 90 %", "1:3", "did not expect '90' here; percentages stand in brackets, behind an action: (90 %)"),
    ("a 90", "1:3", "did not expect '90' here; percentages stand in brackets: (90 %)"),
    ("a (90 %", "1:8", "expected `)` at the end of the line; as in `(90 %)`"),
    ("a 90 %)", "1:3", "did not expect '90' here; percentages stand in brackets, behind an action: (90 %)"),
    ("a (%)", "1:4", "a percentage must be a number; as in `(90 %)`"),
    ("a (ninety %)", "1:4", "a percentage must be a number; as in `(90 %)`"),
    ("a (0.9)", "1:7", "expected `%` before ')'; as in `(90 %)`"),
    ("a ()", "1:4", "a percentage must be a number; as in `(90 %)`"),
    ("if x > 0,5 then a", "1:9", "expected `then` before ',5'; decimals are written with a point: 0.5"),
    ("a (33,3 %)", "1:6", "expected `%` before ',3'; decimals are written with a point: 0.5"),
    ("if x > 5 a", "1:10", "expected `then` before 'a'; write `if TEST then ACTION`"),
    ("if x > 5", "1:9", "expected `then` at the end of the line; write `if TEST then ACTION`"),
    ("if x > 5 then", "1:14", "nothing to do; name an action, or indent further cases below"),
    ("if x then a", "1:6", "expected a comparison; write `NAME > NUMBER`"),
    ("if > 5 then a", "1:4", "expected a number or a name before '>'; as in `2*x + 3`"),
    ("if then a", "1:4", "expected a number or a name before 'then'; as in `2*x + 3`"),
    ("if", "1:3", "expected a number or a name at the end of the line; as in `2*x + 3`"),
    ("then a", "1:1", "expected the name of an action before 'then'; choose from a, b, c"),
    ("if x > then a", "1:8", "expected a number or a name before 'then'; as in `2*x + 3`"),
    ("if x > 5 then then a", "1:15", "expected the name of an action before 'then'; choose from a, b, c"),
    (
        "if x > 5 then if y > 3 then a",
        "1:15",
        "expected the name of an action before 'if'; conditions stand in front: `if TEST then ACTION`",
    ),
    ("when x > 5 then a", "1:1", "when: no such action; cases begin with `if` or `otherwise`"),
    ("while x > 5 then a", "1:1", "while: no such action; cases begin with `if` or `otherwise`"),
    ("if x > 5 {a}", "1:10", "expected `then` before '{a}'; write `if TEST then ACTION`"),
    ("if x > 5 => a", "1:10", "expected `then` before '=>'; write `if TEST then ACTION`"),
    ("if x > 5 -> a", "1:11", "expected a number or a name before '>'; write `if TEST then ACTION`"),
    ("\tif x > 5 then a", "1:1", "a tab in the indentation; use spaces"),
    ("if x > 0 then a\n\totherwise b", "2:1", "a tab in the indentation; use spaces"),
    ("if “x” > 5 then a", "1:4", '“x”: no such observation; names are quoted by plain double quotes: "NAME"'),
    ("if ‘x’ > 5 then a", "1:4", '‘x’: no such observation; names are quoted by plain double quotes: "NAME"'),
    ("if 'x' > 5 then a", "1:4", "'x': no such observation; names are quoted by plain double quotes: \"NAME\""),
    ("if x > −5 then a", "1:8", "−5: no such observation; a minus is written -"),
    ("if x × y > 5 then a", "1:6", "expected a comparison; a product is written x*y"),
    ("if x² > 5 then a", "1:4", "x²: no such observation; a power is written x^2"),
    ("if x\xa0> 5 then a", "1:5", "'\\xa0' is a space of another kind; write a plain one"),
    ("if x > 5 then a\x00", "1:16", "'\\x00' is not a character of text; save the file as plain text in UTF-8"),
    ("x\x0cy", "1:2", "'\\x0c' is a space of another kind; write a plain one"),
    ("if x > 5 then a \u2028 otherwise b", "1:17", "'\\u2028' is a space of another kind; write a plain one"),
    ("if abs(x) > 5 then a", "1:4", "abs: no such observation; the one function is sin(pi*(3*x))"),
    ("if max(x, y) > 5 then a", "1:4", "max: no such observation; the one function is sin(pi*(3*x))"),
    ("if x**2 > 5 then a", "1:6", "*2: no such observation; a power is written x^2, a product x*y"),
    ("if x[0] > 5 then a", "1:5", "expected a comparison; write `NAME > NUMBER`"),
    ("if lambda x: x then a", "1:4", "lambda: no such observation; choose from x, y, z"),
    ("__import__('os').system('true')", "1:1", "__import__: no such action; choose from a, b, c"),
    ("return 1", "1:1", "return: no such action; choose from a, b, c"),
    ("def f(): pass", "1:1", "def: no such action; choose from a, b, c"),
    ("import os", "1:1", "import: no such action; choose from a, b, c"),
    ("x + y", "1:1", "expected a case; write `if TEST then ACTION`, and `otherwise ACTION` last"),
    ("0", "1:1", "0: no such action; choose from a, b, c"),
    ("x > 5", "1:1", "expected a case; write `if TEST then ACTION`, and `otherwise ACTION` last"),
    ("", "1:1", "there is no rule; write `if NAME > 0 then ACTION` and `otherwise ACTION`"),
    ("\n\n", "1:1", "there is no rule; write `if NAME > 0 then ACTION` and `otherwise ACTION`"),
    ("# only\n   # comments", "1:1", "there is no rule; write `if NAME > 0 then ACTION` and `otherwise ACTION`"),
    ("w = x", "1:1", "there are names, but no rule; write what to do below them"),
    ("slow: a", "1:1", "there are names, but no rule; write what to do below them"),
    ("x = y + 1\nif x > 5 then a", "1:1", "x is a name of the environment already; choose another one"),
    ("a = x\nif a > 5 then b", "1:1", "an action is chosen by its name here, not set to a number; write `a` alone"),
    ("a: b\notherwise a", "1:1", "a is an action already; choose another name; scores stand below `the largest of`"),
    ("w = x\nw = y\nif w > 0 then a", "2:1", "w has been named before; choose another name"),
    ("w = x\nw: a\nif w > 0 then a", "2:1", "w has been named before; choose another name"),
    ("within = x\nb", "1:1", "within: a word of the language can be no part of a name; choose another one"),
    ("my if = x\nb", "1:1", "my if: a word of the language can be no part of a name; choose another one"),
    ("sin = x\nif sin > 0 then a", "1:1", "sin: a word of the language can be no part of a name; choose another one"),
    ("w = w + 1\nif w > 5 then a", "1:5", "w is made of itself; a named sum needs names that do not need it"),
    (
        "w = v\nv = u + x\nu = w\nif w > 5 then a",
        "3:5",
        "w is made of itself; a named sum needs names that do not need it",
    ),
    ("w = \nif w > 5 then a", "1:4", "expected a number or a name at the end of the line; as in `2*x + 3`"),
    ("w = x +\nif w > 5 then a", "1:8", "expected a number or a name at the end of the line; as in `2*x + 3`"),
    ("w = x y\nb", "1:7", "did not expect 'y' here; leave it out"),
    ("w = x\n  y = 3\nb", "2:3", "did not expect a list here; a named sum is one line"),
    ("w = 3 > 2\nb", "1:7", "did not expect '>' here; leave it out"),
    ("slow:\nif x > 0 then slow", "1:6", "expected the name of an action at the end of the line; choose from a, b, c"),
    (
        "slow: a\nif x > 0 then slow (90 %)\notherwise b",
        "2:20",
        "did not expect '(90' behind the name of a skill; write it where slow is described",
    ),
    (
        "slow: a\nif x > 0 then slow\n  b\notherwise b",
        "3:3",
        "did not expect a list here; write it where slow is described",
    ),
    ("slow: a\nif x > 0 then slov\notherwise b", "2:15", "slov: no such action; did you mean 'slow'?"),
    ("slow: fast\nfast: a\nif x > 0 then slow\notherwise b", "1:7", "fast: no such action; choose from a, b, c"),
    (
        "slow: if x > 0 then a\notherwise b",
        "1:7",
        "expected the name of an action before 'if'; conditions stand in front: `if TEST then ACTION`",
    ),
    ("1w = x\nif x > 0 then a", "1:1", "expected a case; write `if TEST then ACTION`, and `otherwise ACTION` last"),
    ("w == x\nif x > 0 then a", "1:1", "expected a case; write `if TEST then ACTION`, and `otherwise ACTION` last"),
    ("if x > 1e999 then a", "1:8", "1e999 is not a finite number; write a smaller one"),
    ("if x > inf then a", "1:8", "inf: no such observation; numbers must be finite"),
    ("if x > nan then a", "1:8", "nan: no such observation; numbers must be finite"),
    ("if x > 1e31 then a", "1:8", "a number beyond 1e+30; write it in other units"),
    ("if x > 1.2.3 then a", "1:11", "expected `then` before '.3'; write `if TEST then ACTION`"),
    ("if x > 0x10 then a", "1:9", "did not expect 'x10' behind a number; a product is written 2*x"),
    ("if x > 1_000 then a", "1:9", "did not expect '_000' behind a number; a product is written 2*x"),
    ("if x > 5e then a", "1:9", "did not expect 'e' behind a number; a product is written 2*x"),
    ("if x > . then a", "1:8", ".: no such observation; choose from x, y, z"),
    (
        "if 1e-20*x > 1e20 then a",
        "1:4",
        "numbers of this test are too far apart, or `within` is too small or too large; write it in other units",
    ),
    (
        "if x > 1 within 1e-40 then a",
        "1:4",
        "numbers of this test are too far apart, or `within` is too small or too large; write it in other units",
    ),
    (
        "if x > 1 within 1e40 then a",
        "1:4",
        "numbers of this test are too far apart, or `within` is too small or too large; write it in other units",
    ),
    ("if 1e30*1e30*x > 0 then a", "1:4", "a number beyond 1e+30; write it in other units"),
    ("if x/1e-40 > 0 then a", "1:4", "a number beyond 1e+30; write it in other units"),
    ("if x > ٣ then a", "1:8", "٣: no such observation; choose from x, y, z"),
    ("if x/y > 5 then a", "1:6", "a sum can only be divided by a number other than 0; write it as a product"),
    ("if x/0 > 5 then a", "1:6", "a sum can only be divided by a number other than 0; write it as a product"),
    ("if 1/x > 5 then a", "1:6", "a sum can only be divided by a number other than 0; write it as a product"),
    ("if x^0 > 5 then a", "1:6", "a power must be a whole number from 1 to 6; as in x^2"),
    ("if x^2.5 > 5 then a", "1:6", "a power must be a whole number from 1 to 6; as in x^2"),
    ("if x^7 > 5 then a", "1:6", "a power must be a whole number from 1 to 6; as in x^2"),
    ("if x^y > 5 then a", "1:6", "a power must be a number; as in x^2"),
    ("if x^-1 > 5 then a", "1:6", "a power must be a whole number from 1 to 6; as in x^2"),
    ("if x*x*x*y*y*y*z > 5 then a", "1:16", "a product of more than 6 observations; leave some out"),
    ("if x > 5 degrees then a", "1:10", "did not expect 'degrees' behind a number; numbers stand without units here"),
    ("if 2x > 5 then a", "1:5", "did not expect 'x' behind a number; a product is written 2*x"),
    ("if 2 x > 5 then a", "1:6", "did not expect 'x' behind a number; a product is written 2*x"),
    ("if x y > 5 then a", "1:6", "expected a comparison; write `NAME > NUMBER`"),
    ("if (x > 5 then a", "1:7", "expected `)` before '>'; comparisons stand without brackets"),
    ("if x) > 5 then a", "1:5", "expected a comparison; write `NAME > NUMBER`"),
    ("if x + > 5 then a", "1:8", "expected a number or a name before '>'; as in `2*x + 3`"),
    ("if x + * y > 5 then a", "1:8", "*: no such observation; a power is written x^2, a product x*y"),
    ("if + + x > 5 then a", "1:6", "expected a number or a name before '+'; as in `2*x + 3`"),
    ("if () > 5 then a", "1:5", "expected a number or a name before ')'; as in `2*x + 3`"),
    (
        "if ((((((((((((((((((((((((((((((((((((((((x > 5 then a",
        "1:35",
        "more than 30 brackets and named sums inside each other; write it shorter",
    ),
    (
        "if ----------------------------------------x > 5 then a",
        "1:36",
        "more than 30 brackets and named sums inside each other; write it shorter",
    ),
    ("if sin(x) > 0 then a", "1:8", "expected `pi` before 'x)'; waves are written sin(pi*(3*x))"),
    ("if sin(pi) > 0 then a", "1:10", "expected `*` before ')'; waves are written sin(pi*(3*x))"),
    ("if sin(pi*3) > 0 then a", "1:4", "inside a wave there must be a linear sum; as in sin(pi*(3*x))"),
    ("if sin(pi*x*y) > 0 then a", "1:4", "inside a wave there must be a linear sum; as in sin(pi*(3*x))"),
    ("if sin(pi*x + 1) > 0 then a", "1:13", "expected `)` before '+'; waves are written sin(pi*(3*x))"),
    ("if sin pi*x > 0 then a", "1:4", "sin: no such observation; choose from x, y, z"),
    ("if sin(pi*x > 0 then a", "1:13", "expected `)` before '>'; waves are written sin(pi*(3*x))"),
    ("if sin(pi*sin(pi*x)) > 0 then a", "1:4", "inside a wave there must be a linear sum; as in sin(pi*(3*x))"),
    ("if sin(pi*x)*sin(pi*y) > 0 then a", "1:14", "a product of two waves; no feature is one"),
    ("if sin(pi*x)*x > 0 then a", "1:14", "a product of a wave and an observation; no feature is one"),
    ("if sin(pi*x)^2 > 0 then a", "1:4", "a product of two waves; no feature is one"),
    (
        "if sin(pi*x) > 0 and y > 0 then a\notherwise b",
        "1:22",
        "a wave beside an observation: features are waves or products, not both; write all of them as one kind",
    ),
    (
        "if sin(pi*x) + y > 0 then a\notherwise b",
        "1:4",
        "a wave beside an observation: features are waves or products, not both; write all of them as one kind",
    ),
    (
        "if z > 0 then a if sin(pi*x) > 0, else b\notherwise a if x > 0, else b",
        "2:1",
        "a wave beside an observation: features are waves or products, not both; write all of them as one kind",
    ),
    ("if pi > 3 then a", "1:4", "pi: no such observation; pi stands in waves only: sin(pi*(3*x))"),
    ("if pi*x > 3 then a", "1:4", "pi: no such observation; pi stands in waves only: sin(pi*(3*x))"),
    ("if cos(pi*x) > 0 then a", "1:4", "cos: no such observation; the one function is sin(pi*(3*x))"),
    (
        "if unit 3 > 0 then a",
        "1:4",
        "units of a network can be printed, but not read; a network is no rule; use other features",
    ),
    (
        "if skill unit 3 > 0 then a",
        "1:4",
        "units of a network can be printed, but not read; a network is no rule; use other features",
    ),
    ("if m[0] > 0 then a", "1:4", "m[0]: there are 0; leave it out"),
    ("if obs[-1] > 0 then a", "1:4", "obs: no such observation; choose from x, y, z"),
    ("if obs[x] > 0 then a", "1:4", "obs: no such observation; choose from x, y, z"),
    ("if obs > 0 then a", "1:4", "obs: no such observation; choose from x, y, z"),
    ("action[3]", "1:1", "action[3]: there are 3; use 0 to 2"),
    ('if "x > 0 then a', "1:4", 'a name in quotes does not end; put " behind it'),
    ('if "" > 0 then a', "1:4", '"": no such observation; choose from x, y, z'),
    ('if x > 0 then "a', "1:15", 'a name in quotes does not end; put " behind it'),
    ('if x > 0 then "d"', "1:15", "d: no such action; choose from a, b, c"),
    ("if 3 > 2 then a", "1:4", "a constant test: it is always true or never; compare an observation"),
    ("if x - x > 2 then a", "1:4", "a constant test: it is always true or never; compare an observation"),
    ("if x > x then a", "1:4", "a constant test: it is always true or never; compare an observation"),
    ("if x > 0 within then a", "1:17", "`within` must be a number; as in `x > 3 within 0.5`"),
    ("if x > 0 within 0 then a", "1:10", "`within` must be positive; leave it out for a sharp test"),
    ("if x > 0 within -1 then a", "1:10", "`within` must be positive; leave it out for a sharp test"),
    ("if x > 0 within y then a", "1:17", "`within` must be a number; as in `x > 3 within 0.5`"),
    (
        "if x > 0 within 1 then a\nif x < 0 within 2 then b",
        "2:4",
        "`within` is another number than for the same test in line 1; say it once",
    ),
    ("if x > 0 [kep] then a", "1:11", "expected `keep` in square brackets; as in [keep]"),
    ("if x > 0 [keep then a", "1:16", "expected `]` before 'then'; as in [keep]"),
    ("if x > 0 keep then a", "1:10", "expected `then` before 'keep'; write `if TEST then ACTION`"),
    ("if x > 0 and then a", "1:14", "expected a number or a name before 'then'; as in `2*x + 3`"),
    ("if x > 0 and and y > 0 then a", "1:14", "expected a number or a name before 'and'; as in `2*x + 3`"),
    ("if x > 0, y > 0 then a", "1:9", "expected `then` before ','; write `if TEST then ACTION`"),
    ("if x > y > then a", "1:12", "expected a number or a name before 'then'; as in `2*x + 3`"),
    ("if 0 < x < then a", "1:12", "expected a number or a name before 'then'; as in `2*x + 3`"),
    ("if x >> 0 then a", "1:7", "did not expect '>' here; numbers are compared by > or <"),
    ("if in state 3 then a", "1:4", "states are not numbered here; compare an observation: `NAME > NUMBER`"),
    ("a (70 %), b (40 %)", "1:11", "percentages add up to 110 %; they may add up to 100"),
    ("a (101 %)", "1:3", "101 % is no percentage; write one from 0 to 100"),
    ("a (-1 %)", "1:3", "-1 % is no percentage; write one from 0 to 100"),
    ("a (50 %), a (20 %)", "1:11", "a is named twice; once is enough"),
    ("a, b", "1:1", "of several actions each needs a percentage; as in `a (70 %), b (30 %)`"),
    ("a or b", "1:1", "of several actions each needs a percentage; as in `a (70 %), b (30 %)`"),
    ("a (50 %), b", "1:11", "of several actions each needs a percentage; as in `a (70 %), b (30 %)`"),
    ("a (50 %) b (50 %)", "1:10", "did not expect 'b' here; leave it out"),
    ("a (50 %),", "1:10", "expected the name of an action at the end of the line; choose from a, b, c"),
    ("a (50 %) or", "1:12", "expected the name of an action at the end of the line; choose from a, b, c"),
    ("a and b", "1:1", "of several actions each needs a percentage; as in `a (70 %), b (30 %)`"),
    (
        "a (30 %), b (30 %), c (30 %)",
        "1:21",
        "percentages of all actions add up to 90 %; make it 100, or leave one action out: it gets the rest",
    ),
    ("a (1e999 %)", "1:4", "1e999 is not a finite number; write a smaller one"),
    ("a [keep] (90 %)", "1:10", "did not expect '(90' here; leave it out"),
    ("a (50 %) [keep], b (50 %)", "1:16", "did not expect ',' here; leave it out"),
    ("a = 1", "1:1", "an action is chosen by its name here, not set to a number; write `a` alone"),
    ("if x > 0 then a = 3", "1:15", "an action is chosen by its name here, not set to a number; choose from a, b, c"),
    (
        "if x > 0 then torque = 3",
        "1:15",
        "an action is chosen by its name here, not set to a number; choose from a, b, c",
    ),
    ("if x > 0 then d", "1:15", "d: no such action; choose from a, b, c"),
    ("otherwise", "1:10", "nothing to do; name an action, or indent further cases below"),
    ("if x > 0 then a\nb", "2:1", "expected a case; write `if TEST then ACTION`, or `otherwise ACTION`"),
    ("a\nb", "2:1", "expected a case; write `if TEST then ACTION`, and `otherwise ACTION` last"),
    ("otherwise a\nif x > 0 then b", "2:1", "a case behind `otherwise` is never reached; put `otherwise` last"),
    ("otherwise a\notherwise b", "2:1", "a case behind `otherwise` is never reached; put `otherwise` last"),
    ("if x > 0\n  a", "1:9", "expected `then` at the end of the line; write `if TEST then ACTION`"),
    ("if x > 0 then\n  a", "2:3", "did not expect an action on a line of its own; put it behind `then` or `otherwise`"),
    (
        "if x > 0 then a\n  if y > 0 then b",
        "2:3",
        "did not expect a list here; indent only what belongs to the line above",
    ),
    (
        "if x > 0 then a\n    otherwise b",
        "2:5",
        "did not expect a list here; indent only what belongs to the line above",
    ),
    (
        "if x > 0 then a\n otherwise b\n   otherwise c",
        "3:4",
        "did not expect a list here; indent only what belongs to the line above",
    ),
    (
        "  if x > 0 then a\notherwise b\n  otherwise c",
        "2:1",
        "the indentation fits no line above; indent the cases of one list alike",
    ),
    (
        "if x > 0\n  if y > 0 then a\n   otherwise b",
        "3:4",
        "did not expect a list here; indent only what belongs to the line above",
    ),
    ("if x > 0 then a if y > 0", "1:25", "expected `else` at the end of the line; as in `a if SUM > 0, else b`"),
    (
        "if x > 0 then a if y > 0 else",
        "1:30",
        "expected the name of an action at the end of the line; choose from a, b, c",
    ),
    ("if x > 0 then a if y > 0, else a", "1:32", "both actions are the same; name two"),
    (
        "if x > 0 then a if y > 0 and z > 0, else b",
        "1:20",
        "a choice of two actions has one comparison; write cases for several",
    ),
    (
        "if x > 0 then a if 0 < y < 1, else b",
        "1:20",
        "a choice of two actions has one comparison; write cases for several",
    ),
    ("if x > 0 then a if y, else b", "1:21", "expected a comparison; write `NAME > NUMBER`"),
    ("if x > 0 then a if 3 > 2, else b", "1:20", "a constant test: it is always true or never; compare an observation"),
    (
        "if x > 0 then a if y > 0 otherwise b",
        "1:26",
        "expected `else` before 'otherwise'; as in `a if SUM > 0, else b`",
    ),
    ("the", "1:4", "expected `the largest of`; below it, indented, `ACTION: SUM` for each action"),
    ("the largest", "1:12", "expected `the largest of`; below it, indented, `ACTION: SUM` for each action"),
    ("the biggest of", "1:5", "expected `the largest of`; below it, indented, `ACTION: SUM` for each action"),
    ("the largest of", "1:1", "the largest of nothing; indent `ACTION: SUM` below, for each action"),
    ("the largest of a, b", "1:16", "did not expect 'a,' here; leave it out"),
    ("the largest of\n  a", "2:4", "expected `:` at the end of the line; as in `ACTION: SUM`"),
    ("the largest of\n  a: 1\n  a: 2", "3:3", "a is named twice; once is enough"),
    ("the largest of\n  d: 1", "2:3", "d: no such action; choose from a, b, c"),
    ("the largest of\n  a = 1", "2:5", "expected `:` before '='; as in `ACTION: SUM`"),
    ("the largest of\n  a:", "2:5", "expected a number or a name at the end of the line; as in `2*x + 3`"),
    ("the largest of\n  a: x x", "2:8", "did not expect 'x' here; leave it out"),
    (
        "the largest of\n  a: 1\n    b: 2",
        "3:5",
        "did not expect a list here; indent only what belongs to the line above",
    ),
    (
        "the largest of\na: 1\nb: 2",
        "2:1",
        "a is an action already; choose another name; scores stand below `the largest of`",
    ),
    (
        "if x > 0 then a\nif x > 1 then b\notherwise c",
        "2:1",
        "can never be reached: line 1 covers it; leave it out, or put it first",
    ),
    (
        "if x > 0 and x < -1 then a\notherwise b",
        "1:1",
        "can never be reached: its tests never hold together; leave it out, or change its tests",
    ),
    (
        "if x > 0 then a\nif x < 0 then b\notherwise c",
        "3:1",
        "can never be reached: lines 1 and 2 cover it; leave it out, or put it first",
    ),
    (
        "if x > 0 then a\nif x > 0 then b",
        "2:1",
        "can never be reached: line 1 covers it; leave it out, or put it first",
    ),
    (
        "if x > 0\n  if x < 0 then a\n  otherwise b\notherwise c",
        "2:3",
        "can never be reached: its tests never hold together; leave it out, or change its tests",
    ),
    (
        "if x > 0 then a\nif y > 0 then b\nif x + y > 0 then c\notherwise c",
        "3:1",
        "can never be reached: lines 1 and 2 cover it; leave it out, or put it first",
    ),
    (
        "if x > 0 then a\nif y > 0\n  and x > 3 then b\notherwise c",
        "2:1",
        "can never be reached: line 1 covers it; leave it out, or put it first",
    ),
    ("slow: a\nslow\nb", "2:1", "expected a case; write `if TEST then ACTION`, and `otherwise ACTION` last"),
    ("if x > 0 then a (20 %), b (30 %) c (50 %)", "1:34", "did not expect 'c' here; leave it out"),
    ("if x\n  + yy > 0 then a", "2:5", "yy: no such observation; did you mean 'y'?"),
    ("if x > 0 then b (20 %),\n   d (30 %)", "2:4", "d: no such action; choose from a, b, c"),
    ("if x > 0 then a else b", "1:17", "did not expect 'else' here; write it on a line of its own"),
    ("if x > 0 then a otherwise b", "1:17", "did not expect 'otherwise' here; write it on a line of its own"),
    ("if x > 0 then a; b", "1:16", "did not expect ';' here; leave it out"),
    ("IF X > 0 THEN D", "1:15", "D: no such action; choose from a, b, c"),
    ("if x > 5 then a unless y > 3", "1:17", "did not expect 'unless' here; cases begin with `if` or `otherwise`"),
]

PENDULUM_ERRORS = [
    ("torque = 1,5", "1:12", "5: no such action; decimals are written with a point: 0.5"),
    ("torqe = 1.5", "1:1", "torqe: no such action; did you mean 'torque'?"),
    ("torqe: 1.5", "1:8", "expected the name of an action to set; as in `torque = 1`"),
    ("the largest of\n  torque: 1", "1:1", "here actions are numbers to set; as in `torque = 1`"),
    ("torque", "1:7", "expected `=` at the end of the line; as in `torque = 1`"),
    ("torque 1", "1:8", "expected `=` before '1'; as in `torque = 1`"),
    ("torque = ", "1:9", "expected a number or a name at the end of the line; as in `2*x + 3`"),
    ("torque = x", "1:10", "x: no such observation; choose from angle, angular velocity, speed"),
    ("torque (90 %)", "1:8", "expected `=` before '(90'; as in `torque = 1`"),
    ("torque = 1 (90 %)", "1:12", "expected a spread; as in `(+- 0.3)`"),
    ("torque = 1 (0.3)", "1:12", "expected a spread; as in `(+- 0.3)`"),
    ("torque = 1 (+- 0)", "1:12", "a spread must be positive; leave it out for none"),
    ("torque = 1 (+- -1)", "1:12", "a spread must be positive; leave it out for none"),
    ("torque = 1 (+- x)", "1:16", "a spread must be a number; as in `(+- 0.3)`"),
    ("torque = 1 (+- 1e-20)", "1:12", "a spread of 1e-20 does not fit the action's range; leave it out for none"),
    ("torque = 1 (+- 1e20)", "1:12", "a spread of 1e+20 does not fit the action's range; leave it out for none"),
    ("torque = 1 (+- 0.3", "1:19", "expected `)` at the end of the line; as in `(+- 0.3)`"),
    (
        "torque = 1 +- 0.3",
        "1:12",
        "a sum goes on with one sign; a spread stands in brackets, behind a number to set: (+- 0.3)",
    ),
    ("torque = 1 (+/- 0.3)", "1:12", "expected a spread; as in `(+- 0.3)`"),
    (
        "torque = 1 ± 0.3",
        "1:12",
        "did not expect '±' here; a spread stands in brackets, behind a number to set: (+- 0.3)",
    ),
    ("torque = 1, torque = 2", "1:13", "torque is set twice; once is enough"),
    ("torque = 1\ntorque = 2", "2:1", "torque is set twice; once is enough"),
    ("torque == 1", "1:9", "expected a number or a name before '='; numbers are compared by > or <"),
    ("torque := 1", "1:8", "expected `=` before ':='; as in `torque = 1`"),
    (
        "torque = 1 if speed > 0, else 2",
        "1:12",
        "did not expect 'if' here; conditions stand in front: `if TEST then ACTION`",
    ),
    (
        "torque = 1\nif speed > 0 then torque = 2",
        "2:1",
        "a case is never reached behind a skill without a test; put it first, and `otherwise` last",
    ),
    ("if speed > 0 then 1.5", "1:19", "expected the name of an action to set; as in `torque = 1`"),
    ("if speed > 0 then speed = 1.5", "1:19", "speed: no such action; choose from torque"),
    (
        "coast: torque = 0\ncoast\ntorque = 1",
        "2:1",
        "expected a case; write `if TEST then ACTION`, and `otherwise ACTION` last",
    ),
]

TASKS_ERRORS = [
    ("if goal x*goal y > 0 then a", "1:11", "a product of two numbers of the task; no feature is one"),
    ("if goal x^2 > 0 then a", "1:4", "a product of two numbers of the task; no feature is one"),
    (
        "if sin(pi*goal x) > 0 then a",
        "1:4",
        "inside a wave there may be observations only; put numbers of the task in front of it",
    ),
    ("if m[2] > 0 then a", "1:4", "m[2]: there are 2; use 0 to 1"),
    ("if obs[2] > 0 then a", "1:4", "obs[2]: there are 2; use 0 to 1"),
]

METRES_ERRORS = [
    ("if ball x > 5 deg then a", "1:15", "deg is not the unit of this sum; use m, or leave it out"),
    ("if ball x > 5 km then a", "1:15", "did not expect 'km' behind a number; units here are m, deg"),
    ("if ball x + heading > 5 m then a", "1:25", "m is not the unit of this sum; leave it out"),
    ("far = heading - 5 m\nif far > 0 then a", "1:19", "m is not the unit of this sum; use deg, or leave it out"),
    ("if ball x > 5 within 3 deg then a", "1:24", "deg is not the unit of this sum; use m, or leave it out"),
    ("a (90 m %)", "1:7", "expected `%` before 'm'; as in `(90 %)`"),
    ("the largest of\n  a: 3 m", "2:8", "did not expect the unit m here; leave it out: units are for tests"),
    ("if ball x > 5 m m then a", "1:17", "did not expect 'm' behind a number; units here are m, deg"),
]

LAKE_ERRORS = [
    ("in row 0 columns 1 to 2.5 then left", "1:23", "states are numbered by whole numbers; as in `states 3, 5 to 9`"),
    ("in row 9 column 1 then left", "1:4", "row 9 column 1: no such state; did you mean 'row 3 column 1'?"),
    (
        "in row 0 columns 1, 9 then left",
        "1:21",
        "row 0 column 9: no such state; choose from those that `asap tasks` prints",
    ),
    ("in row 0 columns 3 to 1 then left", "1:18", "no such range of states: 3 to 1; the smaller number first"),
    ("in row 0 columns 1.5, 2 then left", "1:4", "row 0 columns 1: no such state; did you mean 'row 0 column 1'?"),
    (
        "in row 0 columns 1, 2.5 then left",
        "1:21",
        "2.5: no such state; choose from row 0 column 0, row 0 column 1, row 0 column 2, row 0 column 3, row 1 column 0, row 1 column 1, ...",
    ),
    (
        "in then left",
        "1:4",
        "expected the name of a state before 'then'; choose from row 0 column 0, row 0 column 1, row 0 column 2, row 0 column 3, row 1 column 0, row 1 column 1, ...",
    ),
    ("in state[16] then left", "1:4", "state[16]: there are 16; use 0 to 15"),
    ("in row 0 column 1 left", "1:19", "expected `then` before 'left'; write `if TEST then ACTION`"),
    ("in row 0 column 1", "1:18", "expected `then` at the end of the line; write `if TEST then ACTION`"),
    (
        "in row 0 columns 1 to 99999999 then left",
        "1:18",
        "no such range of states: 1 to 99999999; the smaller number first",
    ),
    ("in row 0 columns 9 then left", "1:4", "row 0 columns 9: no such state; did you mean 'row 0 column 3'?"),
    ("in row 0 colum 1 then left", "1:4", "row 0 colum 1: no such state; did you mean 'row 0 column 1'?"),
    (
        "in 3 then left",
        "1:4",
        "3: no such state; choose from row 0 column 0, row 0 column 1, row 0 column 2, row 0 column 3, row 1 column 0, row 1 column 1, ...",
    ),
    (
        "in row 0 column 1 then left\nin row 0 column 1 then right\notherwise up",
        "2:1",
        "can never be reached: line 1 covers it; leave it out, or put it first",
    ),
]

ARM_ERRORS = [
    ("lift = 1", "1:1", "turn is left unset; add `turn = 0`"),
    ("if x > 0 then lift = 1, turn = 2\notherwise turn = 2", "2:1", "lift is left unset; add `lift = 0`"),
    ("lift = 1,", "1:10", "expected the name of an action at the end of the line; choose from lift, turn"),
    ("lift = 1 turn = 2", "1:10", "did not expect 'turn' here; leave it out"),
    (
        "if x > 0 then\n  lift = 1\n    turn = 2",
        "3:5",
        "did not expect a list here; indent only what belongs to the line above",
    ),
    ("lift = turn = 2", "1:8", "turn: no such observation; choose from x, y"),
    ("lift = 1; turn = 2", "1:9", "did not expect ';' here; leave it out"),
    ("lift = 1\nleft = 2", "1:1", "turn is left unset; add `turn = 0`"),
    ("lift = 1\nturn = 2\n  lift = 3", "3:3", "did not expect a list here; indent all of them alike"),
    ("lift = 1, turn = 2 (+- 0.1 m)", "1:28", "expected `)` before 'm)'; as in `(+- 0.3)`"),
]
NAMELESS = Vocabulary(("obs 0", "obs 1"), ("action 0", "action 1"))
NAMELESS_ERRORS = [
    (
        "if level > 1 then action 0",
        "1:4",
        "level: no such observation; choose from obs 0, obs 1, or give the environment an attribute `observation_names`",
    ),
    (
        "if obs 0 > 1 then open",
        "1:19",
        "open: no such action; choose from action 0, action 1, or give the environment an attribute `action_names`",
    ),
]

VOCABULARIES = [
    (NAMELESS, NAMELESS_ERRORS),
    (PLAIN, PLAIN_ERRORS),
    (CARTPOLE, CARTPOLE_ERRORS),
    (PENDULUM, PENDULUM_ERRORS),
    (ARM, ARM_ERRORS),
    (TASKS, TASKS_ERRORS),
    (METRES, METRES_ERRORS),
    (LAKE, LAKE_ERRORS),
]
ROWS = [(vocabulary, *row) for vocabulary, rows in VOCABULARIES for row in rows]
MANY = Vocabulary(tuple(f"x{k}" for k in range(60)), ("a", "b"))


def refused(text, vocabulary=PLAIN, name="f.rules"):
    with pytest.raises(RulesError) as caught:
        read_rules(text, vocabulary, name)
    assert isinstance(caught.value, UserError)
    return caught.value


@pytest.mark.parametrize("vocabulary, text, place, message", ROWS, ids=lambda value: repr(value)[:40])
def test_a_malformed_text_is_refused_in_one_line(vocabulary, text, place, message):
    error = refused(text, vocabulary)
    line, shown, mark = str(error).split("\n")
    assert line == f"f.rules:{place}: {message}"
    row, column = map(int, place.split(":"))
    assert (error.line, error.column) == (row, column)
    source = re.split(r"\r\n|\n|\r", text)[row - 1]
    assert mark.strip() == "^" and shown[2:].startswith("".join(c if c.isprintable() else " " for c in source)[:40])
    assert mark.index("^") == 2 + column - 1
    assert "; " in line  # The cure.


def test_there_are_many_of_them():
    assert len({text for _, text, *_ in ROWS}) >= 200


LIMITED = (
    (
        "if x*y > 0 then a",
        Limits(1, False),
        "a product of 2 observations: features have none here; use --features poly2",
    ),
    (
        "if x^3 > 0 then a",
        Limits(2, False),
        "a product of 3 observations: features have none here; use --set policy.degree=3",
    ),
    ("if sin(pi*(x)) > 0 then a", Limits(1, False), "a wave: features have none here; use --features fourier"),
)


@pytest.mark.parametrize(("text", "limits", "message"), LIMITED)
def test_terms_that_the_features_lack_are_refused_with_the_cure(text, limits, message):
    with pytest.raises(RulesError) as refused:
        read_rules(text, Vocabulary(("x", "y"), ("a", "b")), limits=limits)
    assert str(refused.value).splitlines()[0].endswith(f": {message}")


def test_every_message_of_the_reader_is_in_the_table():
    """The constant beginning of each `fail` and of each error occurs in some row, or in a test of its own."""
    told = [message for *_, message in ROWS] + [row[-1] for row in SIZES] + ["the text is in UTF-16", "byte 0x"]
    told += [message for *_, message in LIMITED]
    folder = Path(asap.policy.rules.__file__).parent
    missing = []
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_fail = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "fail"
            if is_fail and node.args and (words := _longest_piece(node.args[0])):
                if not any(words in message for message in told):
                    missing.append(f"{path.name}: {words}")
    assert missing == []


def _longest_piece(node: ast.expr) -> str:
    """Of the constant pieces of a text."""
    pieces = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return max(pieces, key=len, default="") if isinstance(node, ast.JoinedStr | ast.Constant) else ""


# ---- Sizes ------------------------------------------------------------------------------------------------------------

CHAIN = "\n".join(f"s{k} = s{k + 1} + x" for k in range(40))
SIZES = [
    (PLAIN, "x" * 10_000_000, "1:1", "too long: 5,000 lines and 1,000,000 characters at most"),
    (PLAIN, "if x > 0 then a\n" * 625_000, "1:1", "too long"),
    (PLAIN, "a\n" * 100_000, "1:1", "too long"),
    (PLAIN, "\n" * 100_000, "1:1", "too long"),
    (PLAIN, "\n".join(" " * k + "if x > 0" for k in range(1300)), "41:41", "cases more than 40 deep inside each other"),
    (PLAIN, "".join(" " * (k % 4000) + "if x > 0\n" for k in range(100_000)), "1:1", "too long"),
    (PLAIN, "if " + " and ".join(["x > 1"] * 90_000) + " then a", "1:1", "a statement of more than 100,000 characters"),
    (PLAIN, "if x > 0 then a (1 %),\n" * 4_999 + "b", "1:1", "a statement of more than 100,000 characters"),
    (PLAIN, "if " + "(" * 90_000 + "x > 0 then a", "1:35", "more than 30 brackets and named sums inside each other"),
    (PLAIN, "if " + "-" * 90_000 + "x > 0 then a", "1:36", "more than 30 brackets and named sums inside each other"),
    (PLAIN, f"{CHAIN}\ns40 = x\nb", "31:7", "more than 30 brackets and named sums inside each other"),
    (PLAIN, "a" + " " * 99_000 + "b", "1:99002", "did not expect 'b' here"),
    (PLAIN, "w " * 45_000, "1:1", "w: no such action"),
    (PLAIN, "s " * 45_000 + "> 3", "1:1", "s: no such action"),
    (LAKE, "in " + "s  1 " * 15_000, "1:4", "s: no such state"),
    (PLAIN, f"if x > {'9' * 90_000} then a", "1:8", "is not a finite number"),
    (PLAIN, f"if x > 1{'0' * 80} then a", "1:8", "a number beyond 1e+30"),
    (PLAIN, "\n".join(f"if x > {k} then a ({k} %)" for k in range(20, 0, -1)), "11:4", "more than 10 different tests"),
    (
        MANY,
        "v = " + " + ".join(f"x{k}" for k in range(60)) + "\nw = " + "v + " * 5_000 + "v\nb",
        None,
        "too many terms to add and multiply",
    ),
    (
        MANY,
        "w = " + " + ".join(f"x{j}*x{k} + x{j}*x{k}*x0" for j in range(60) for k in range(j)) + "\nb",
        None,
        "a sum of more than 2,000 terms",
    ),
    (
        MANY,
        "v = " + " + ".join(f"x{k}" for k in range(60)) + "\nw = v*v\nb",
        "2:7",
        "a product of more than 2,000 terms",
    ),
    (
        MANY,
        "if x1^6 + " + " + ".join(f"x{k}" for k in range(60)) + " > 0 then a",
        "1:4",
        "products of 6 of 60 observations are more than 50,000 features; use lower powers, or fewer observations",
    ),
]


@pytest.mark.parametrize("vocabulary, text, place, message", SIZES, ids=lambda value: repr(value)[:40])
def test_hostile_sizes_are_refused_at_once(vocabulary, text, place, message):
    began = time.process_time()
    error = refused(text, vocabulary)
    assert time.process_time() - began < 5.0  # The hook that checks shapes takes most of it: 0.5 s without.
    line, shown, mark = str(error).split("\n")
    assert message in line and len(line) < 400 and len(shown) < 200 and len(mark) < 200
    assert place is None or (error.line, error.column) == tuple(map(int, place.split(":")))


def test_thousands_of_names_take_little_time():
    text = "\n".join(f"name {k} = x + {k}" for k in range(2_500)) + "\n"
    text += "\n".join(f"skill {k}: a ({k % 100} %), b ({k / 100 / 100:.4f} %)" for k in range(2_400)) + "\nb"
    began = time.process_time()
    assert len(read_rules(text, PLAIN).warnings) == 4_900
    assert time.process_time() - began < 10.0


# ---- Bytes of a file --------------------------------------------------------------------------------------------------

BYTES = [
    ("if x > 0 then a".encode("utf-16"), "1:1", "the text is in UTF-16; save the file as plain text in UTF-8"),
    ("if x > 0 then a".encode("utf-16-le"), "1:2", "'\\x00' is not a character of text; save the file as plain text"),
    ("if x > 0 then a\nföhn".encode("latin-1"), "2:2", "byte 0xf6 is not text in UTF-8; save the file as plain text"),
    (b"\x89PNG\r\n\x1a\n\x00", "1:1", "byte 0x89 is not text in UTF-8"),
    (b"\x7fELF\x02\x01\x01\x00", "1:1", "'\\x7f' is not a character of text"),
    (bytes(range(32)), "1:1", "'\\x00' is not a character of text"),
    (b"x" * 10_000_000, "1:1", "too long"),
    (b"\x1b[31mif x > 0", "1:1", "'\\x1b' is not a character of text"),
]


@pytest.mark.parametrize("data, place, message", BYTES, ids=lambda value: repr(value)[:40])
def test_bytes_that_are_no_text(data, place, message):
    with pytest.raises(RulesError) as caught:
        read_rules(decoded(data, "f.rules"), PLAIN, "f.rules")
    line = str(caught.value).split("\n")[0]
    assert line.startswith(f"f.rules:{place}: ") and message in line


def test_a_long_line_is_shown_around_the_place():
    error = refused("if x > 0 then " + "a (1 %), " * 50 + "d")
    _, shown, mark = str(error).split("\n")
    assert len(shown) <= 122 and shown[mark.index("^")] == "a"


def test_nothing_is_evaluated():
    for text in ("__import__('os').abort()", "if __import__('os').abort() > 0 then a", "w = [].__class__\nb", "{x}"):
        refused(text)


def test_names_are_not_patterns():
    """Signs of regular expressions in names, and letters that match each other there."""
    vocabulary = Vocabulary(("x.*", "(y", "i", "K"), ("a|b", "[c"))
    assert read_rules('if "x.*" > 0 then a|b\notherwise "[c"', vocabulary).uncovered == ()
    for name in ("xyz", "İ", "ı"):
        refused(f"if {name} > 0 then a|b\notherwise action[1]", vocabulary)
    assert read_rules("if \u212a > 0 then a|b\notherwise action[1]", vocabulary).uncovered == ()  # Kelvin is a K.
