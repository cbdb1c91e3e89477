"""The generated code is that of the file it is generated from."""

from pathlib import Path

from google.protobuf import descriptor_pb2
from grpc_tools import protoc

from barnabas.v1 import bus_pb2

ROOT = Path(__file__).parents[4]


def described(tmp_path: Path) -> descriptor_pb2.FileDescriptorProto:
    made = tmp_path / "bus.bin"
    assert protoc.main(["protoc", f"-I{ROOT / 'proto'}", f"--descriptor_set_out={made}", "barnabas/v1/bus.proto"]) == 0
    (file,) = descriptor_pb2.FileDescriptorSet.FromString(made.read_bytes()).file
    return file


def lines_of(file: descriptor_pb2.FileDescriptorProto) -> list[str]:
    """What it says, without the names in JSON, which follow from the others and are not in all of its forms."""
    return [line for line in str(file).splitlines() if "json_name" not in line]


def test_the_stubs_are_not_stale(tmp_path: Path) -> None:
    checked_in = descriptor_pb2.FileDescriptorProto.FromString(bus_pb2.DESCRIPTOR.serialized_pb)
    assert lines_of(described(tmp_path)) == lines_of(checked_in), "proto/ has changed: run 'make proto'"


def test_the_service_keeps_to_the_rules_of_buf(tmp_path: Path) -> None:
    file = described(tmp_path)
    (service,) = file.service
    assert service.name.endswith("Service")
    for method in service.method:
        assert method.input_type == f".barnabas.v1.{method.name}Request"
        assert method.output_type == f".barnabas.v1.{method.name}Response"
    for enum in file.enum_type:
        assert enum.value[0].number == 0
        assert enum.value[0].name.endswith("_UNSPECIFIED")
        prefix = enum.value[0].name.removesuffix("UNSPECIFIED")
        assert all(value.name.startswith(prefix) for value in enum.value)
