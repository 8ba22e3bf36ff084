"""`ssl.principal.mapping.rules`: Kafka's syntax, Java's patterns in linear time, and clear errors."""

import time
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorum_node.security.errors import SecuritySettingError
from quorum_node.security.principals.mapping_rules import (
    MAX_SUBJECT_CHARS,
    NoRuleFits,
    parse_mapping_rules,
)
from support.security_samples import rule as random_rule
from support.security_samples import subject as random_subject

SEVERAL = (
    r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,"
    r" RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L ,"
    r"RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, DEFAULT"
)


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        ("DEFAULT", "CN=a,O=b", "CN=a,O=b"),
        (SEVERAL, "CN=kafka1,OU=ServiceUsers,O=x", "kafka1"),
        (SEVERAL, "CN=Duke,OU=Java,O=Sun,L=Here,ST=A,C=US", "duke@java"),
        (SEVERAL, "cn=web,ou=dev,dc=a,dc=b", "WEB@DEV"),
        (SEVERAL, "something else", "something else"),
        # A pattern with commas and an escaped slash is one rule.
        (r"RULE:^CN=(a\/b)$/x/,RULE:^CN=(a\/b),O=(.*)$/$2\/$1/", "CN=a/b,O=c", "c/a/b"),
        # Every place where the pattern is found is replaced, the empty one at the end as well.
        ("RULE:.*/x/", "abc", "xx"),
        ("RULE:[a-z]/<$0>/", "q", "<q>"),
        # References to missing groups are literal text, if the pattern has any groups.
        ("RULE:(a)b/$1$2/", "ab", "a$2"),
        ("RULE:(a)b/$12/", "ab", "a2"),
        ("RULE:(?<who>a)b/${who}!/", "ab", "a!"),
        ("RULE:a(b)?/<$1>/", "a", "<>"),
        (r"RULE:\Qa.b\E(.)/$1/", "a.bc", "c"),
        ("RULE:(?i)cn=(é)/$1/", "CN=é", "é"),
        # Case is folded for ASCII alone: the Kelvin sign is no k.
        ("RULE:(?i)k/same/,DEFAULT", "\u212a", "\u212a"),
        (r"RULE:\w/word/,DEFAULT", "é", "é"),
        # A line terminator makes every pattern miss.
        ("RULE:CN=(?s).*/all/,DEFAULT", "CN=a\nOU=admin", "CN=a\nOU=admin"),
    ],
)
def test_mapping_rules_are_applied_to_a_subject(rules: str, subject: str, name: str) -> None:
    assert parse_mapping_rules(rules).name_of(subject) == name


@pytest.mark.parametrize(
    "subject", ["CN=b", "xCN=a", "CN=ax", "CN=a\n", "CN=" + "a" * MAX_SUBJECT_CHARS]
)
def test_subject_without_a_matching_rule_has_no_principal(subject: str) -> None:
    with pytest.raises(NoRuleFits, match="no rule"):
        parse_mapping_rules("RULE:CN=a+/x/").name_of(subject)


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ("", "there is no rule"),
        ("default", "neither DEFAULT nor RULE"),
        ("RULE:a/b", "neither DEFAULT nor RULE"),
        ("DEFAULT,RULE:a/b/LU", "'U' follows the rule"),
        ("RULE:(?=a)b/x/", "look-ahead"),
        ("RULE:(?<!a)b/x/", "look-behind"),
        (r"RULE:(a)\1/x/", "back reference"),
        ("RULE:a++/x/", "possessive"),
        ("RULE:(?>a)/x/", "atomic"),
        ("RULE:[a-z&&[^b]]/x/", "intersection"),
        ("RULE:[a[b]]/x/", "class within a class"),
        ("RULE:(a*)*/x/", "what can be empty"),
        ("RULE:(a/x/", "not closed"),
        ("RULE:a)/x/", "closing parenthesis"),
        ("RULE:*a/x/", "nothing to repeat"),
        ("RULE:a{2/x/", "a repetition is"),
        ("RULE:a{9999}/x/", "1000 times at most"),
        ("RULE:((a{900}){900})/x/", "too large"),
        (r"RULE:\p{IsGreek}/x/", "IsGreek"),
        ("RULE:[z-a]/x/", "lower to a higher"),
        ("RULE:a/$1/", "no group 1"),
        ("RULE:\udcff/x/", "not UTF-8"),
        ("RULE:(a)/$2$3/", "no group 3"),
        ("RULE:a/${n}/", "the pattern has no group n"),
        ("RULE:a/$x/", "has to be followed by a number"),
        ("RULE:" + "(" * 60 + "a" + ")" * 60 + "/x/", "nested"),
    ],
)
def test_invalid_rules_are_rejected_at_start(rules: str, why: str) -> None:
    with pytest.raises(SecuritySettingError, match=why) as raised:
        parse_mapping_rules(rules, "listener.name.controller.ssl.principal.mapping.rules")
    assert str(raised.value).startswith("listener.name.controller.ssl.principal.mapping.rules")


@pytest.mark.parametrize(
    "pattern",
    [
        "^(a+)+$",
        "^(a|aa)+$",
        "^(a|a)*b$",
        "(.*a){20}",
        "^(([a-z])+.)+[A-Z]([a-z])+$",
        "(.*)(.*)(.*)(.*)(.*)=",
        ".*?",
        "(.*x)?|a?",
    ],
)
def test_malicious_pattern_has_bounded_cost(pattern: str) -> None:
    """CPU time, of the calmest of three: a backtracking engine needs years for some of these."""
    rules = parse_mapping_rules(f"RULE:{pattern}/$0/,DEFAULT")
    subjects = ["a" * (MAX_SUBJECT_CHARS - 1) + end for end in ("!", "a", "=")]
    spent = []
    for _ in range(3):
        start = time.process_time()
        for subject in subjects:
            rules.name_of(subject)
        spent.append(time.process_time() - start)
    assert min(spent) < 0.5


@given(st.text(st.sampled_from("RULE:/\\,DEFAULTLU$(){}[]*+?|^.ab1&-<>=!QE xwp\n"), max_size=40))
@settings(max_examples=400)
def test_any_text_is_rules_or_is_rejected(text: str) -> None:
    try:
        rules = parse_mapping_rules(text)
    except SecuritySettingError:
        return
    try:
        rules.name_of("CN=ab,O=1")
    except NoRuleFits:
        pass


@given(st.integers(0, 10**9))
@settings(max_examples=300, deadline=None)
def test_random_rules_on_random_subjects_raise_only_defined_errors(seed: int) -> None:
    """Nothing but the two proper errors comes out."""
    random = Random(seed)
    try:
        rules = parse_mapping_rules(random_rule(random))
        rules.name_of(random_subject(random))
    except (SecuritySettingError, NoRuleFits):
        pass
