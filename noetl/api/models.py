"""The base of the models of the API."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class ApiModel(BaseModel):
    """Built where it is first needed: building all takes a start a quarter of a second, and most
    models of answers are only for the OpenAPI document."""

    model_config = ConfigDict(defer_build=True)
