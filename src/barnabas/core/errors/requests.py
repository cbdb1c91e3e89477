"""What every refusal is, and those of a request as such: its form, its settings, its time, its client's rights."""

from typing import ClassVar


class BarnabasError(Exception):
    """A refusal with a Kafka error code."""

    kafka_code: ClassVar[int] = -1


class InvalidConfig(BarnabasError):
    """A setting that does not exist, or a value it cannot have."""

    kafka_code = 40


class AddressNotAvailable(BarnabasError):
    """An address that a node cannot listen on now: another process has it, or no interface here does."""


class InvalidRequest(BarnabasError):
    """A request whose parts contradict each other."""

    kafka_code = 42


class UnsupportedVersion(BarnabasError):
    """A version of a request that does not support this."""

    kafka_code = 35


class RequestTimedOut(BarnabasError):
    """The request was not completed in time. Whether it still will be is unknown."""

    kafka_code = 7


class PolicyViolation(BarnabasError):
    """A change that a policy of this cluster forbids."""

    kafka_code = 44


class ThrottlingQuotaExceeded(BarnabasError):
    """A change that the client's quota does not leave room for now; it may be tried again later."""

    kafka_code = 89


class OperationNotAttempted(BarnabasError):
    """Nothing was tried, because another part of the request is invalid."""

    kafka_code = 55


class InvalidRegularExpression(BarnabasError):
    """A regular expression that is invalid in the syntax of RE2."""

    kafka_code = 128


class MismatchedEndpointType(BarnabasError):
    """A request to a broker that only a controller's listener answers."""

    kafka_code = 114


class UnsupportedEndpointType(BarnabasError):
    """A type of endpoint that does not exist."""

    kafka_code = 115


class SecurityDisabled(BarnabasError):
    """A request that needs an authorizer, and there is none."""

    kafka_code = 54


class ClusterAuthorizationFailed(BarnabasError):
    """An operation on the cluster that this client may not perform."""

    kafka_code = 31


class TopicAuthorizationFailed(BarnabasError):
    """A topic that this client may not use in this way."""

    kafka_code = 29


class GroupAuthorizationFailed(BarnabasError):
    """A group that this client may not use in this way."""

    kafka_code = 30


class TransactionalIdAuthorizationFailed(BarnabasError):
    """A transactional id that the client may not use, or not in this way."""

    kafka_code = 53


class DelegationTokenAuthorizationFailed(BarnabasError):
    """A delegation token, or a user's tokens, that the client may not use in this way."""

    kafka_code = 65


class UnsupportedSaslMechanism(BarnabasError):
    """A mechanism of SASL that this listener does not accept."""

    kafka_code = 33


class IllegalSaslState(BarnabasError):
    """A request that does not fit where the authentication of its connection is."""

    kafka_code = 34


class SaslAuthenticationFailed(BarnabasError):
    """A client that could not prove who it is."""

    kafka_code = 58


class ResourceNotFound(BarnabasError):
    """Something to be removed that does not exist."""

    kafka_code = 91


class DuplicateResource(BarnabasError):
    """Something that one request names twice."""

    kafka_code = 92


class UnacceptableCredential(BarnabasError):
    """A credential that would not protect its user: without a name, or with too few or too many iterations."""

    kafka_code = 93
