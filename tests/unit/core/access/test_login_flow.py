"""The steps of a login, as tables: what is expected, and what becomes of anything else."""

import pytest

from barnabas.core.access.attempts import FREE, MAX_ADDRESSES, MAX_DELAY_MS, MAX_HELD, WINDOW_MS, FailedLogins
from barnabas.core.access.login_flow import (
    API_VERSIONS,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    LoginFlow,
    Step,
    Verdict,
)

METADATA = 3
TAKE, REFUSE, HANG_UP = Verdict.TAKE, Verdict.REFUSE, Verdict.HANG_UP


def flow_at(step: Step) -> LoginFlow:
    flow = LoginFlow(["PLAIN"])
    flow.step = step
    return flow


@pytest.mark.parametrize(
    ("step", "versions", "handshake", "authenticate", "other"),
    [
        (Step.VERSIONS_OR_HANDSHAKE, TAKE, TAKE, HANG_UP, HANG_UP),
        (Step.HANDSHAKE, HANG_UP, TAKE, HANG_UP, HANG_UP),
        (Step.TOKEN, REFUSE, REFUSE, TAKE, REFUSE),
        (Step.ENDED, HANG_UP, HANG_UP, HANG_UP, HANG_UP),
    ],
)
def test_each_step_takes_what_it_expects_and_nothing_else(
    step: Step, versions: Verdict, handshake: Verdict, authenticate: Verdict, other: Verdict
) -> None:
    verdicts = {
        API_VERSIONS: versions,
        SASL_HANDSHAKE: handshake,
        SASL_AUTHENTICATE: authenticate,
        METADATA: other,
    }
    for api_key, verdict in verdicts.items():
        flow = flow_at(step)
        assert flow.judge(api_key) is verdict
        assert (flow.step is Step.ENDED) == (verdict is not TAKE)


def test_a_login_goes_from_versions_to_handshake_to_tokens() -> None:
    flow = LoginFlow(["PLAIN", "SCRAM-SHA-256"])
    flow.note_versions()
    assert flow.choose("SCRAM-SHA-256", version=1)
    assert (flow.step, flow.mechanism, flow.is_bare) == (Step.TOKEN, "SCRAM-SHA-256", False)
    flow.finish()
    assert flow.step is Step.DONE


def test_after_a_handshake_of_version_0_tokens_are_bare() -> None:
    flow = LoginFlow(["PLAIN"])
    assert flow.choose("PLAIN", version=0)
    assert flow.is_bare


def test_a_mechanism_that_is_not_accepted_ends_it() -> None:
    flow = LoginFlow(["PLAIN"])
    assert not flow.choose("GSSAPI", version=1)
    assert flow.step is Step.ENDED


def test_who_logs_in_again_begins_with_the_handshake_and_keeps_its_mechanism() -> None:
    flow = LoginFlow(["PLAIN", "OAUTHBEARER"], again_by="OAUTHBEARER")
    assert flow.step is Step.HANDSHAKE
    assert flow.choose("PLAIN", version=1)
    assert not flow.is_same_mechanism


def test_many_failures_of_an_address_wait_longer_and_others_do_not() -> None:
    failed = FailedLogins()
    delays = [failed.note("a", now_ms=0, delay_ms=100) for _ in range(FREE + 10)]
    assert delays[:FREE] == [100] * FREE
    assert delays[FREE] == 200
    assert delays[-1] == MAX_DELAY_MS
    assert failed.note("b", now_ms=0, delay_ms=100) == 100
    assert failed.note("a", now_ms=WINDOW_MS, delay_ms=100) == 100


def test_only_so_many_answers_are_held_back_for_an_address() -> None:
    failed = FailedLogins()
    for _ in range(MAX_HELD):
        failed.hold("a")
    assert failed.note("a", now_ms=0, delay_ms=100) is None
    failed.release("a")
    assert failed.note("a", now_ms=0, delay_ms=100) == 100


def test_only_so_many_addresses_are_remembered() -> None:
    failed = FailedLogins()
    for number in range(MAX_ADDRESSES + 10):
        failed.note(str(number), now_ms=0, delay_ms=0)
    assert len(failed._failures) == MAX_ADDRESSES
