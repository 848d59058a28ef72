"""Architectures of torchvision, timm and transformers, by name: `NETWORKS[name](batch, is_small)` gives a module with
random weights, and its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Made = tuple[Any, tuple[Any, ...]]  # a module and its inputs


def vision(name: str, size: int = 224, **how: Any) -> Callable[[int, bool], Made]:
    """A network of torchvision on images."""

    def make(batch: int, _: bool) -> Made:
        import torch
        import torchvision

        return getattr(torchvision.models, name)(weights=None, **how), (torch.randn(batch, 3, size, size),)

    return make


def segmentation(name: str, size: int = 224) -> Callable[[int, bool], Made]:
    """A network of torchvision that tells a class for each pixel; its first output."""

    def make(batch: int, _: bool) -> Made:
        import torch
        import torchvision

        made = getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None)

        class First(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.network = made

            def forward(self, images: Any) -> Any:
                return self.network(images)["out"]

        return First(), (torch.randn(batch, 3, size, size),)

    return make


def timm_network(name: str, size: int = 224) -> Callable[[int, bool], Made]:
    """A network of timm on images."""

    def make(batch: int, _: bool) -> Made:
        import timm
        import torch

        return timm.create_model(name, pretrained=False), (torch.randn(batch, 3, size, size),)

    return make


def network_on(kind: str, model: str, shape: Any, *keys: str, depths: tuple[str, ...] = (), **config: Any) -> Any:
    """A network of transformers on what `shape` draws for a batch, given by these names; its first output."""

    def make(batch: int, is_small: bool) -> Made:
        import torch
        import transformers

        stated = getattr(transformers, f"{kind}Config")(**{**config, **(dict.fromkeys(depths, 2) if is_small else {})})
        stated.use_cache = False
        network = getattr(transformers, model)(stated)

        class First(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.network = network

            def forward(self, *given: Any) -> Any:
                return self.network(**dict(zip(keys, given, strict=True)), return_dict=False)[0]

        return First(), shape(batch)

    return make


def words(*lengths: int, most: int = 8000) -> Callable[[int], tuple[Any, ...]]:
    """Token ids of these lengths."""

    def draw(batch: int) -> tuple[Any, ...]:
        import torch

        return tuple(torch.randint(3, most, (batch, length)) for length in lengths)

    return draw


def text(kind: str, model: str, tokens: int = 128, depth: str = "num_hidden_layers", **config: Any) -> Any:
    """A network of transformers on token ids; its first output."""
    most = config.get("vocab_size", 8000)
    return network_on(kind, model, words(tokens, most=most), "input_ids", depths=(depth,), **config)


def two_sided(kind: str, **config: Any) -> Any:
    """An encoder and a decoder of transformers, of 512 and 128 tokens; their output."""
    sides = {"layers": 6, "attention_heads": 12, "ffn_dim": 3072}
    own = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in sides.items()}
    keys = ("input_ids", "decoder_input_ids")
    depths = ("encoder_layers", "decoder_layers")
    size = {"vocab_size": 8000, "d_model": 768}
    return network_on(kind, f"{kind}Model", words(512, 128), *keys, depths=depths, **{**own, **size, **config})


def numbers(*shape: int) -> Callable[[int], tuple[Any, ...]]:
    """One tensor of normal numbers."""

    def draw(batch: int) -> tuple[Any, ...]:
        import torch

        return (torch.randn(batch, *shape),)

    return draw


def layers(batch: int, _: bool) -> Made:
    """Two products: what a call costs the host."""
    import torch

    made = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 256))
    return made, (torch.randn(batch, 256),)


_HEADS = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 8, "num_attention_heads": 12}
_DECODER = {**_HEADS, "intermediate_size": 2048, "num_key_value_heads": 4, "vocab_size": 8000}
_DEEP = ("num_hidden_layers",)
NETWORKS: dict[str, Callable[[int, bool], Made]] = {
    "layers": layers,
    "resnet18": vision("resnet18"),
    "resnet50": vision("resnet50"),
    "vgg11_bn": vision("vgg11_bn"),
    "alexnet": vision("alexnet"),
    "densenet121": vision("densenet121"),
    "mobilenet_v2": vision("mobilenet_v2"),
    "mobilenet_v3_small": vision("mobilenet_v3_small"),
    "shufflenet_v2": vision("shufflenet_v2_x1_0"),
    "squeezenet": vision("squeezenet1_1"),
    "googlenet": vision("googlenet", init_weights=False, aux_logits=False),
    "inception_v3": vision("inception_v3", 299, init_weights=False, aux_logits=False),
    "resnext50": vision("resnext50_32x4d"),
    "wide_resnet50": vision("wide_resnet50_2"),
    "efficientnet_b0": vision("efficientnet_b0"),
    "efficientnet_v2_s": vision("efficientnet_v2_s"),
    "regnet_y_400mf": vision("regnet_y_400mf"),
    "regnet_y_1_6gf": vision("regnet_y_1_6gf"),
    "fcn_resnet50": segmentation("fcn_resnet50"),
    "deeplabv3_resnet50": segmentation("deeplabv3_resnet50"),
    "convnextv2_nano": timm_network("convnextv2_nano"),
    "mnasnet": vision("mnasnet0_5"),
    "convnext_tiny": vision("convnext_tiny"),
    "vit_b_16": vision("vit_b_16"),
    "swin_t": vision("swin_t"),
    "maxvit_t": vision("maxvit_t"),
    "mixer_s32": timm_network("mixer_s32_224"),
    "resmlp_12": timm_network("resmlp_12_224"),
    "deit_tiny": timm_network("deit_tiny_patch16_224"),
    "poolformer_s12": timm_network("poolformer_s12"),
    "convmixer": timm_network("convmixer_768_32"),
    "mobileone_s0": timm_network("mobileone_s0"),
    "bert": text("Bert", "BertModel"),
    "distilbert": text("DistilBert", "DistilBertModel", depth="n_layers"),
    "roberta": text("Roberta", "RobertaModel"),
    "electra": text("Electra", "ElectraModel"),
    "albert": text("Albert", "AlbertModel", hidden_size=768, num_attention_heads=12, intermediate_size=3072),
    "gpt2": text("GPT2", "GPT2LMHeadModel", depth="n_layer"),
    "llama": text("Llama", "LlamaForCausalLM", hidden_size=768, intermediate_size=2048, num_hidden_layers=8,
                  num_attention_heads=12, num_key_value_heads=4, vocab_size=8000),
    "qwen2": text("Qwen2", "Qwen2ForCausalLM", hidden_size=768, intermediate_size=2048, num_hidden_layers=8,
                  num_attention_heads=12, num_key_value_heads=4, vocab_size=8000),
    "opt": text("OPT", "OPTModel", vocab_size=8000),
    "t5_encoder": text("T5", "T5EncoderModel", depth="num_layers"),
    "mistral": text("Mistral", "MistralForCausalLM", 512, **_DECODER, sliding_window=128),
    "gemma3": text("Gemma3Text", "Gemma3ForCausalLM", 512, **_DECODER, head_dim=64, sliding_window=128),
    "phi3": text("Phi3", "Phi3ForCausalLM", 512, **_DECODER, pad_token_id=0),
    "qwen3": text("Qwen3", "Qwen3ForCausalLM", 512, **_DECODER, head_dim=64),
    "llama4": text("Llama4Text", "Llama4ForCausalLM", 512, **_DECODER, head_dim=64, intermediate_size_mlp=2048,
                   num_local_experts=2, interleave_moe_layer_step=2),
    "gpt_neox": text("GPTNeoX", "GPTNeoXForCausalLM", 512, **_HEADS, vocab_size=8000),
    "bloom": text("Bloom", "BloomForCausalLM", 512, "n_layer", hidden_size=768, n_layer=8, n_head=12, vocab_size=8000),
    "falcon": text("Falcon", "FalconForCausalLM", 512, hidden_size=768, num_hidden_layers=8, num_attention_heads=12,
                   vocab_size=8000, alibi=True),
    "mpt": text("Mpt", "MptForCausalLM", 512, "n_layers", d_model=768, n_heads=12, n_layers=8, vocab_size=8000),
    "deberta_v3": text("DebertaV2", "DebertaV2Model", 512, **_HEADS, relative_attention=True, position_buckets=256,
                       pos_att_type=["p2c", "c2p"], share_att_key=True, norm_rel_ebd="layer_norm",
                       position_biased_input=False, vocab_size=8000),
    "modernbert": text("ModernBert", "ModernBertModel", 512, **_HEADS, vocab_size=8000, pad_token_id=0),
    "mpnet": text("MPNet", "MPNetModel", 512, **_HEADS, vocab_size=8000, max_position_embeddings=514),
    "fnet": text("FNet", "FNetModel", 512, hidden_size=768, num_hidden_layers=8, intermediate_size=3072,
                 vocab_size=8000),
    "bart": two_sided("Bart"),
    "mbart": two_sided("MBart"),
    "marian": two_sided("Marian", pad_token_id=0, decoder_start_token_id=0),
    "pegasus": two_sided("Pegasus", pad_token_id=0),
    "t5": network_on("T5", "T5Model", words(512, 128), "input_ids", "decoder_input_ids",
                     depths=("num_layers", "num_decoder_layers"), vocab_size=8000),
    "wav2vec2": network_on("Wav2Vec2", "Wav2Vec2Model", numbers(48000), "input_values", depths=_DEEP),
    "hubert": network_on("Hubert", "HubertModel", numbers(48000), "input_values", depths=_DEEP,
                   feat_extract_norm="layer", do_stable_layer_norm=True),
    "audio_spectrogram": network_on("AST", "ASTModel", numbers(1024, 128), "input_values", depths=_DEEP),
    "siglip": network_on("SiglipVision", "SiglipVisionModel", numbers(3, 224, 224), "pixel_values",
                   depths=_DEEP),
    "dinov2": network_on("Dinov2", "Dinov2Model", numbers(3, 224, 224), "pixel_values", depths=_DEEP,
                   image_size=224),
    "beit": network_on("Beit", "BeitModel", numbers(3, 224, 224), "pixel_values", depths=_DEEP,
                 use_relative_position_bias=True),
    "segformer": network_on("Segformer", "SegformerModel", numbers(3, 512, 512), "pixel_values"),
    "swin_v2_t": vision("swin_v2_t", 256),
    "efficientformer": timm_network("efficientformer_l1"),
    "mobilevit": timm_network("mobilevit_s", 256),
    "edgenext": timm_network("edgenext_small", 256),
}  # fmt: skip
