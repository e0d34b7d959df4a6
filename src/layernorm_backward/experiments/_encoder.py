"""Types of the arguments of `model` and `model_error`: what the text and the encoder have."""

from typing import Annotated

from pydantic import Field

from layernorm_backward.encoder.bert import sites
from layernorm_backward.encoder.pretrained import LAYERS
from layernorm_backward.encoder.text import SENTENCES

Sentences = Annotated[int, Field(ge=1, le=len(SENTENCES))]
NormLayer = Annotated[int, Field(ge=0, lt=len([*sites(LAYERS)]))]  # the number of a layer normalization
