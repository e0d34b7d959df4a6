"""Argument types of `model` and `model_error`: numbers of sentences and layers that exist."""

from typing import Annotated

from pydantic import Field

from layernorm_backward.encoder.bert import sites
from layernorm_backward.encoder.pretrained import LAYERS
from layernorm_backward.encoder.text import SENTENCES

Sentences = Annotated[int, Field(ge=1, le=len(SENTENCES))]
NormLayer = Annotated[int, Field(ge=0, lt=len([*sites(LAYERS)]))]  # the number of a layer normalization
