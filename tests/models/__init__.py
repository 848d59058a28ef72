"""Well-known networks as front-end JSON with random weights, in any size: ResNet-50, BERT, GPT-2, ViT,
CLIP's image encoder, Llama, Whisper's encoder, ConvNeXt, DenseNet, EfficientNet, MobileNetV3, a UNet; and perceptrons.

    model = resnet50()                                  the real one, batch 1
    model = bert(layers=1, tokens=8, hidden=32, heads=2, words=50)
    model.text                                          front-end JSON
    model.arrays()                                      every input of the signature, weights too, by name

The defaults are the published sizes; a test takes a small one. A batch that is a string is a symbol of the signature.
"""

from .bert import bert
from .convnext import convnext
from .densenet import densenet
from .gpt2 import gpt2
from .inverted import efficientnet, mobilenet
from .llama import llama
from .mlp import mlp
from .network import Network, RandomModel
from .resnet import resnet50
from .unet import unet
from .vit import clip, vit
from .whisper import whisper

__all__ = [
    "Network",
    "RandomModel",
    "bert",
    "clip",
    "convnext",
    "densenet",
    "efficientnet",
    "gpt2",
    "llama",
    "mlp",
    "mobilenet",
    "resnet50",
    "unet",
    "vit",
    "whisper",
]
