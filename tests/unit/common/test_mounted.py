"""What a context mounts names methods that it has."""

import pytest

from libs.common.health import SERVICE_NAME
from libs.common.interceptors.admission import all_of
from libs.common.mounted import Mounted


async def _close() -> None:
    """Nothing is open."""


@pytest.mark.parametrize(
    "names",
    [
        {"urgent": all_of(SERVICE_NAME, "Chek")},
        {"long_polls": [f"{SERVICE_NAME}/Watch"]},
        {"checks_late": [f"/{SERVICE_NAME}/Look"]},
    ],
)
def test_a_method_that_no_service_has_is_refused_before_anything_runs(names):
    with pytest.raises(ValueError, match=r"no methods of grpc\.health\.v1\.Health: "):
        Mounted(lambda server: None, (SERVICE_NAME,), (), _close, **names)


def test_methods_of_its_services_are_taken():
    urgent = all_of(SERVICE_NAME, "Check", "List")
    assert Mounted(lambda server: None, (SERVICE_NAME,), (), _close, urgent=urgent).urgent == urgent
