"""Archives of small networks of transformers, timm and torchvision, with torch's own results, for `test_networks`.

    python tests/pt2/make_networks.py [--out tests/pt2/networks.tar.xz] [--only NAME,...]

needs torch, torchvision, timm and transformers, and no GPU. The configurations are shrunk, the code is the libraries'
own. Parameters have the numbers of `archives.parameter`, so the archives hold zeros in their place and stay small.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

try:
    from .archives import emptied, filled, parameter
    from .making import Files, archive_of, outputs_of, packed, write
except ImportError:
    from archives import emptied, filled, parameter
    from making import Files, archive_of, outputs_of, packed, write

Made = tuple[nn.Module, tuple[torch.Tensor, ...]]
WORDS, TOKENS, WIDTH = 97, 12, 32


class First(nn.Module):
    """The first output of a network of transformers, of inputs by these names."""

    def __init__(self, network: nn.Module, names: tuple[str, ...]):
        super().__init__()
        self.network, self.names = network, names

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.network(**dict(zip(self.names, inputs)), return_dict=False)[0]


def text(kind: str, model: str, **config: Any) -> Callable[[], Made]:
    """A network on token ids, two of them in a batch."""

    def make() -> Made:
        import transformers

        own = {"vocab_size": WORDS, "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4}
        own |= {"intermediate_size": 64, "max_position_embeddings": 32, "pad_token_id": 0}
        stated = getattr(transformers, f"{kind}Config")(**own | config)
        stated.use_cache = False
        network = getattr(transformers, model)(stated)
        return First(network, ("input_ids",)), (torch.randint(1, WORDS, (2, TOKENS)),)

    return make


def both_sides() -> Made:
    """BART: an encoder, and a decoder that looks at it."""
    import transformers

    sizes = {f"{side}_{word}": n for side in ("encoder", "decoder")
             for word, n in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 64))}  # fmt: skip
    stated = transformers.BartConfig(vocab_size=WORDS, d_model=WIDTH, max_position_embeddings=32, **sizes)
    stated.use_cache = False
    network = transformers.BartModel(stated)
    ids = torch.randint(3, WORDS, (2, TOKENS)), torch.randint(3, WORDS, (2, 7))
    return First(network, ("input_ids", "decoder_input_ids")), ids


def seen(kind: str, model: str, size: int, **config: Any) -> Callable[[], Made]:
    """A network of transformers on images."""

    def make() -> Made:
        import transformers

        stated = getattr(transformers, f"{kind}Config")(**config)
        network = getattr(transformers, model)(stated)
        return First(network, ("pixel_values",)), (torch.randn(1, 3, size, size),)

    return make


def heard() -> Made:
    """wav2vec 2.0: convolutions over sound, then a transformer."""
    import transformers

    stated = transformers.Wav2Vec2Config(
        hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=WORDS,
        conv_dim=(16, 16, 32), conv_kernel=(10, 3, 2), conv_stride=(5, 2, 2), num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=4,
    )  # fmt: skip
    return First(transformers.Wav2Vec2Model(stated), ("input_values",)), (torch.randn(1, 800),)


def vision(make: Callable[[Any], nn.Module], size: int = 32) -> Callable[[], Made]:
    """A network of torchvision on an image."""

    def made() -> Made:
        import torchvision

        return make(torchvision.models), (torch.randn(1, 3, size, size),)

    return made


def timm_network(name: str, size: int, **how: Any) -> Callable[[], Made]:
    """A network of timm on an image, few classes."""

    def make() -> Made:
        import timm

        return timm.create_model(name, pretrained=False, num_classes=10, **how), (torch.randn(1, 3, size, size),)

    return make


NETWORKS: dict[str, Callable[[], Made]] = {
    "albert": text("Albert", "AlbertModel", embedding_size=16),
    "bart": both_sides,
    "bloom": text("Bloom", "BloomForCausalLM", n_head=4, n_layer=2),
    "deberta": text("DebertaV2", "DebertaV2Model", relative_attention=True, pos_att_type=["p2c", "c2p"],
                    position_buckets=8, max_relative_positions=16, norm_rel_ebd="layer_norm", share_att_key=True),
    "falcon": text("Falcon", "FalconForCausalLM"),
    "gemma": text("Gemma2", "Gemma2ForCausalLM", num_key_value_heads=2, head_dim=8, sliding_window=8),
    "neox": text("GPTNeoX", "GPTNeoXForCausalLM", rotary_pct=0.5),
    "wav2vec2": heard,
    "dinov2": seen("Dinov2", "Dinov2Model", 28, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=4,
                   image_size=28, patch_size=7),
    "densenet": vision(lambda m: m.DenseNet(8, (2, 2, 2), 16, num_classes=10)),
    "mobilenet_v3": vision(lambda m: m.mobilenetv3.MobileNetV3(*m.mobilenetv3._mobilenet_v3_conf(
        "mobilenet_v3_small", width_mult=0.25), num_classes=10)),
    "xcit": timm_network("xcit_nano_12_p16_224", 64, img_size=64, embed_dim=32, depth=2, num_heads=4),
}  # fmt: skip


def with_numbers(model: nn.Module) -> nn.Module:
    """The model with the numbers of `parameter`; running means and variances of norms are drawn."""
    names: dict[int, list[str]] = defaultdict(list)
    for name, own in model.named_parameters(remove_duplicate=False):
        names[id(own)].append(name)
    with torch.no_grad():
        for own in model.parameters():
            own.copy_(torch.from_numpy(parameter(min(names[id(own)]), tuple(own.shape))))
        for name, own in model.named_buffers():
            if name.endswith(("running_mean", "running_var")):
                own.copy_(torch.rand_like(own) + 0.5)
    return model


def made_of(make: Callable[[], Made]) -> Files:
    """A network with its inputs and results, without its parameters."""
    torch.manual_seed(0)
    model, inputs = make()
    model = with_numbers(model.eval())
    with torch.no_grad():
        results = outputs_of(model(*inputs))
    raw = archive_of(torch.export.export(model, inputs).run_decompositions())
    small = emptied(raw)
    assert filled(small) == filled(raw)
    arrays = {f"i{n}": outputs_of(v)[0] for n, v in enumerate(inputs)}
    arrays |= {f"o{n}": v for n, v in enumerate(results)}
    return {"npz": packed(arrays), "pt2": small}


def every_network() -> Iterator[tuple[str, Callable[[], Files]]]:
    """All of them, in the order in which they are made."""
    for name, make in NETWORKS.items():
        yield name, lambda make=make: made_of(make)


if __name__ == "__main__":
    write(__doc__, "networks.tar.xz", every_network)
