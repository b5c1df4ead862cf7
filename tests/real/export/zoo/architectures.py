"""Architectures of today with random weights, thin: a second or a few for each.

Imported by a Python with torch, transformers, timm and torchvision; each is made when it is asked
for. `inputs` are calls; the sizes in them are other than 0 and 1 where that is no matter, and of
batch 1 in some, as people write them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Row = tuple[Any, ...] | dict[str, Any]


@dataclass(frozen=True)
class Architecture:
    """package: whose it is, `own` for ours; others: calls of other sizes, compared too."""

    package: str
    make: Callable[[], nn.Module]
    inputs: Callable[[], Sequence[Row] | Mapping[str, Sequence[Row]]]
    others: Callable[[], Sequence[Row]] = tuple


def ids(batch: int, length: int, most: int = 99) -> Tensor:
    return torch.randint(3, most, (batch, length))


def _text(batch: int = 1, length: int = 12, **more: Any) -> Callable[[], Sequence[Row]]:
    def rows() -> Sequence[Row]:
        mask = torch.ones(batch, length, dtype=torch.int64)
        return [{"input_ids": ids(batch, length), "attention_mask": mask, **more}]

    return rows


def _image(batch: int, side: int, key: str = "pixel_values") -> Callable[[], Sequence[Row]]:
    return lambda: [{key: torch.rand(batch, 3, side, side)}]


def _plain(*shape: int) -> Callable[[], Sequence[Row]]:
    return lambda: [(torch.randn(*shape),)]


THIN: Mapping[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 100,
}
# Names that other configurations give the same.
T5 = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2, "vocab_size": 100}
BART = {
    **{"d_model": 32, "vocab_size": 100, "encoder_layers": 2, "decoder_layers": 2},
    **{"encoder_attention_heads": 2, "decoder_attention_heads": 2},
    **{"encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 64},
    **{"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2},
}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 100, "n_positions": 64}
LLAMA = {**THIN, "num_key_value_heads": 2, "max_position_embeddings": 64}
WINDOWED = {"head_dim": 16, "sliding_window": 4, "use_cache": False}
EXPERTS = {
    **{"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    "use_cache": False,
}
XLNET = {"vocab_size": 100, "d_model": 32, "n_layer": 2, "n_head": 2, "d_inner": 64}
MOONSHINE = {
    **{"vocab_size": 100, "hidden_size": 32, "intermediate_size": 64},
    **{"encoder_num_hidden_layers": 1, "decoder_num_hidden_layers": 1},
    **{"encoder_num_attention_heads": 4, "decoder_num_attention_heads": 4},
}
PATCHES = {
    **{"num_input_channels": 2, "context_length": 32, "patch_length": 8, "patch_stride": 8},
    **{"d_model": 16, "num_hidden_layers": 1, "num_attention_heads": 2},
}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
AUDIO = {
    **{k: v for k, v in THIN.items() if k != "vocab_size"},
    **{"vocab_size": 32, "conv_dim": (16, 16), "conv_kernel": (10, 3), "conv_stride": (5, 2)},
    **{"num_feat_extract_layers": 2, "num_conv_pos_embeddings": 16},
    **{"num_conv_pos_embedding_groups": 2},
}
VISION = {**{k: v for k, v in THIN.items() if k != "vocab_size"}, "image_size": 32, "patch_size": 8}


def _hf(model: str, config: str, **settings: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        import transformers

        its = getattr(transformers, config)(**settings)
        return getattr(transformers, model)(its).eval()

    return make


def _timm(name: str, **settings: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        import timm

        return timm.create_model(name, pretrained=False, num_classes=10, **settings).eval()

    return make


def _torchvision(name: str, **settings: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        from torchvision import models

        return models.get_model(name, weights=None, weights_backbone=None, **settings).eval()

    return make


# Of detectors whose numbers would vanish in the backbone, so that all scores are equal and which
# boxes are the first is by chance: the slope of the leaky ReLU that weights are made for.
_SLOPES = {"ssdlite320_mobilenet_v3_large": 0.0, "fasterrcnn_mobilenet_v3_large_320_fpn": 0.3}


def _detector(name: str, **settings: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        its = _torchvision(name, **settings)()
        for of, one in its.named_parameters():
            if name in _SLOPES and of.startswith("backbone.") and one.dim() > 1:
                nn.init.kaiming_normal_(one, a=_SLOPES[name])
        return its

    return make


def _vision(name: str, **settings: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        from torchvision import models

        return models.get_model(name, weights=None, **settings).eval()

    return make


def _hf_text(model: str, settings: Mapping[str, Any], **rows: Any) -> Architecture:
    name = model.removesuffix("Model").removesuffix("ForCausalLM")
    config = f"{name}Config"
    return Architecture("transformers", _hf(model, config, **settings), _text(**rows))


def _hf_image(model: str, config: str, side: int, batch: int = 1, **settings: Any) -> Architecture:
    return Architecture("transformers", _hf(model, config, **settings), _image(batch, side))


def _seq2seq(model: str, config: str, settings: Mapping[str, Any]) -> Architecture:
    def rows() -> Sequence[Row]:
        return [{"input_ids": ids(2, 9), "decoder_input_ids": ids(2, 5)}]

    return Architecture("transformers", _hf(model, config, use_cache=False, **settings), rows)


class _Encoder(nn.Module):
    """The encoder of a model."""

    def __init__(self, make: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.encoder = make().get_encoder()

    def forward(self, x: Tensor) -> Tensor:
        return self.encoder(x).last_hidden_state


def _encoder(make: Callable[[], nn.Module], rows: Callable[[], Sequence[Row]]) -> Architecture:
    return Architecture("transformers", lambda: _Encoder(make).eval(), rows)


WHISPER = {
    **{k: v for k, v in BART.items() if k != "max_position_embeddings"},
    **{"num_mel_bins": 16, "max_source_positions": 50, "max_target_positions": 32},
}
CLIP = {
    "text_config": {**THIN, "max_position_embeddings": 32, "bos_token_id": 0, "eos_token_id": 98},
    "vision_config": {**VISION, "projection_dim": 16},
    "projection_dim": 16,
}
TRANSFORMERS: Mapping[str, Architecture] = {
    "bert": _hf_text("BertModel", THIN),
    "distilbert": _hf_text(
        "DistilBertModel",
        {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64, "vocab_size": 100},
    ),
    "albert": _hf_text("AlbertModel", {**THIN, "embedding_size": 16}),
    "mobilebert": _hf_text(
        "MobileBertModel",
        {**THIN, "embedding_size": 16, "intra_bottleneck_size": 16, "true_hidden_size": 16},
    ),
    "roberta": _hf_text("RobertaModel", {**THIN, "max_position_embeddings": 66}),
    "xlm-roberta": _hf_text("XLMRobertaModel", {**THIN, "max_position_embeddings": 66}),
    "electra": _hf_text("ElectraModel", {**THIN, "embedding_size": 16}),
    "deberta-v2": _hf_text("DebertaV2Model", THIN),
    "mpnet": _hf_text("MPNetModel", THIN),
    # with fewer landmarks than tokens transformers adds a mask of another size, and fails
    "nystromformer": _hf_text(
        "NystromformerModel", {**THIN, "num_landmarks": 16, "segment_means_seq_len": 16}
    ),
    "squeezebert": _hf_text("SqueezeBertModel", {**THIN, "embedding_size": 32}),
    "modernbert": _hf_text("ModernBertModel", {**THIN, **SPECIAL, "max_position_embeddings": 64}),
    "fnet": Architecture(
        "transformers", _hf("FNetModel", "FNetConfig", **THIN), lambda: [(ids(1, 12),)]
    ),
    "t5-encoder": _encoder(_hf("T5Model", "T5Config", **T5), lambda: [(ids(1, 12),)]),
    "t5": _seq2seq("T5Model", "T5Config", {**T5, "decoder_start_token_id": 0}),
    "bart": _seq2seq("BartModel", "BartConfig", BART),
    "marian": _seq2seq("MarianModel", "MarianConfig", {**BART, "decoder_vocab_size": 100}),
    "m2m-100": _seq2seq("M2M100Model", "M2M100Config", BART),
    "gpt2": _hf_text("GPT2Model", {**GPT2, "use_cache": False}),
    "gpt-neo": _hf_text(
        "GPTNeoModel",
        {
            **{"hidden_size": 32, "num_layers": 2, "num_heads": 2, "vocab_size": 100},
            **{"attention_types": [[["global", "local"], 1]], "max_position_embeddings": 64},
            **{"window_size": 8, "use_cache": False},
        },
    ),
    "gpt-neox": _hf_text("GPTNeoXModel", {**THIN, "use_cache": False}),
    "opt": _hf_text(
        "OPTModel",
        {
            **{"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "ffn_dim": 64},
            **{"vocab_size": 100, "word_embed_proj_dim": 32, "use_cache": False},
            "max_position_embeddings": 64,
        },
    ),
    "bloom": _hf_text(
        "BloomModel",
        {"hidden_size": 32, "n_layer": 2, "n_head": 2, "vocab_size": 100},
        use_cache=False,
    ),
    "llama": _hf_text("LlamaModel", {**LLAMA, "use_cache": False}),
    "llama-head": _hf_text("LlamaForCausalLM", {**LLAMA, "use_cache": False}),
    "mistral": _hf_text("MistralModel", {**LLAMA, "use_cache": False}),
    "qwen2": _hf_text("Qwen2Model", {**LLAMA, "use_cache": False}),
    "qwen3": _hf_text("Qwen3Model", {**LLAMA, "head_dim": 16, "use_cache": False}),
    "gemma": _hf_text("GemmaModel", {**LLAMA, "head_dim": 16, "use_cache": False}),
    "gemma2": _hf_text("Gemma2Model", {**LLAMA, "head_dim": 16, "use_cache": False}),
    "phi": _hf_text("PhiModel", {**LLAMA, "use_cache": False}),
    "phi3": _hf_text("Phi3Model", {**LLAMA, **SPECIAL, "use_cache": False}),
    "gemma3": _hf_text("Gemma3TextModel", {**LLAMA, **WINDOWED}),
    "smollm3": _hf_text("SmolLM3Model", {**LLAMA, **SPECIAL, "use_cache": False}),
    "olmo": _hf_text("OlmoModel", {**LLAMA, "use_cache": False}),
    "falcon": _hf_text("FalconModel", {**THIN, "use_cache": False}),
    "lfm2": _hf_text(
        "Lfm2Model",
        {**LLAMA, "layer_types": ["conv", "full_attention"], "use_cache": False},
    ),
    "mixtral": _hf_text("MixtralModel", {**LLAMA, "num_local_experts": 4, "use_cache": False}),
    "olmoe": _hf_text("OlmoeModel", {**LLAMA, **EXPERTS}),
    "qwen2-moe": _hf_text(
        "Qwen2MoeModel", {**LLAMA, **EXPERTS, "shared_expert_intermediate_size": 16}
    ),
    "gpt-oss": _hf_text("GptOssModel", {**LLAMA, **WINDOWED, "num_local_experts": 4}),
    "deepseek-v3": _hf_text(
        "DeepseekV3Model",
        {
            **{**LLAMA, "num_key_value_heads": 2, "first_k_dense_replace": 1, "use_cache": False},
            **{"n_routed_experts": 8, "n_group": 2, "topk_group": 1, "num_experts_per_tok": 2},
            **{"moe_intermediate_size": 16, "q_lora_rank": 16, "kv_lora_rank": 16},
            **{"qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8},
        },
    ),
    "xlnet": Architecture(
        "transformers",
        _hf("XLNetModel", "XLNetConfig", **XLNET),
        lambda: [{"input_ids": ids(1, 12)}],
    ),
    "esm": _hf_text("EsmModel", {**THIN, "pad_token_id": 1, "position_embedding_type": "rotary"}),
    "moonshine": Architecture(
        "transformers",
        _hf("MoonshineModel", "MoonshineConfig", use_cache=False, **MOONSHINE),
        lambda: [{"input_values": torch.randn(1, 4000), "decoder_input_ids": ids(1, 4)}],
    ),
    "patchtst": Architecture(
        "transformers",
        _hf("PatchTSTModel", "PatchTSTConfig", **PATCHES),
        lambda: [{"past_values": torch.randn(1, 32, 2)}],
    ),
    "mamba": Architecture(
        "transformers",
        _hf(
            "MambaModel",
            "MambaConfig",
            hidden_size=32,
            num_hidden_layers=2,
            vocab_size=100,
            state_size=4,
            use_cache=False,
        ),
        lambda: [(ids(1, 12),)],
    ),
    "whisper-encoder": Architecture(
        "transformers",
        lambda: _Encoder(_hf("WhisperModel", "WhisperConfig", **WHISPER)).eval(),
        _plain(1, 16, 100),
    ),
    "whisper": Architecture(
        "transformers",
        _hf("WhisperModel", "WhisperConfig", use_cache=False, **WHISPER),
        lambda: [{"input_features": torch.randn(1, 16, 100), "decoder_input_ids": ids(1, 5)}],
    ),
    "wav2vec2": Architecture(
        "transformers", _hf("Wav2Vec2Model", "Wav2Vec2Config", **AUDIO), _plain(1, 4000)
    ),
    "hubert": Architecture(
        "transformers", _hf("HubertModel", "HubertConfig", **AUDIO), _plain(1, 4000)
    ),
    "wavlm": Architecture(
        "transformers", _hf("WavLMModel", "WavLMConfig", **AUDIO), _plain(1, 4000)
    ),
    "data2vec-audio": Architecture(
        "transformers",
        _hf("Data2VecAudioModel", "Data2VecAudioConfig", **{**AUDIO, "num_conv_pos_embeddings": 2}),
        _plain(1, 4000),
    ),
    "vits": Architecture(
        "transformers",
        _hf(
            "VitsModel",
            "VitsConfig",
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            ffn_dim=32,
            vocab_size=38,
            flow_size=16,
            spectrogram_bins=9,
            upsample_initial_channel=32,
            prior_encoder_num_flows=2,
            posterior_encoder_num_wavenet_layers=2,
            depth_separable_num_layers=2,
            duration_predictor_num_flows=2,
            noise_scale=0.0,
            noise_scale_duration=0.0,
            use_stochastic_duration_prediction=False,
            prior_encoder_num_wavenet_layers=2,
            upsample_rates=(4, 4),
            upsample_kernel_sizes=(8, 8),
            resblock_kernel_sizes=(3,),
            resblock_dilation_sizes=((1, 3),),
        ),
        lambda: [{"input_ids": ids(1, 12, 38)}],
    ),
    "clip": Architecture(
        "transformers",
        _hf("CLIPModel", "CLIPConfig", **CLIP),
        lambda: [{"input_ids": ids(2, 7), "pixel_values": torch.rand(3, 3, 32, 32)}],
    ),
    "vit": _hf_image("ViTModel", "ViTConfig", 32, **VISION),
    "deit": _hf_image("DeiTModel", "DeiTConfig", 32, **VISION),
    "beit": _hf_image("BeitModel", "BeitConfig", 32, **VISION),
    "dinov2": _hf_image("Dinov2Model", "Dinov2Config", 32, **VISION),
    "swin": _hf_image(
        "SwinModel",
        "SwinConfig",
        32,
        image_size=32,
        patch_size=4,
        embed_dim=16,
        depths=[1, 1],
        num_heads=[2, 2],
        window_size=4,
    ),
    "convnext": _hf_image(
        "ConvNextModel", "ConvNextConfig", 32, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1]
    ),
    "segformer": _hf_image(
        "SegformerForSemanticSegmentation",
        "SegformerConfig",
        64,
        hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 1, 1],
        decoder_hidden_size=16,
        num_attention_heads=[1, 2, 2, 4],
    ),
    "mobilevit": _hf_image(
        "MobileViTModel",
        "MobileViTConfig",
        64,
        hidden_sizes=[16, 24, 32],
        neck_hidden_sizes=[8, 8, 16, 16, 24, 32, 64],
        num_attention_heads=2,
        image_size=64,
    ),
    "yolos": _hf_image(
        "YolosForObjectDetection",
        "YolosConfig",
        64,
        **{**VISION, "image_size": [64, 64], "patch_size": 16, "num_detection_tokens": 5},
    ),
    "detr": _hf_image(
        "DetrForObjectDetection",
        "DetrConfig",
        64,
        use_timm_backbone=False,
        backbone=None,
        use_pretrained_backbone=False,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        num_queries=5,
    ),
    "dpt": _hf_image(
        "DPTForDepthEstimation",
        "DPTConfig",
        32,
        **{**VISION, "num_hidden_layers": 4},
        backbone_out_indices=[0, 1, 2, 3],
        neck_hidden_sizes=[8, 8, 16, 16],
        fusion_hidden_size=16,
        is_hybrid=False,
    ),
    "time-series": Architecture(
        "transformers",
        _hf(
            "PatchTSTModel",
            "PatchTSTConfig",
            context_length=32,
            patch_length=8,
            patch_stride=8,
            num_input_channels=2,
            d_model=16,
            num_attention_heads=2,
            num_hidden_layers=2,
            ffn_dim=32,
        ),
        lambda: [{"past_values": torch.randn(1, 32, 2)}],
    ),
}
TIMM: Mapping[str, Architecture] = {
    name: Architecture("timm", _timm(name, **settings), _plain(1, 3, side, side))
    for name, side, settings in (
        ("mobilenetv3_small_050", 64, {}),
        ("mobilenetv4_conv_small_035", 64, {}),
        ("efficientnet_lite0", 64, {}),
        ("resnet18", 64, {}),
        ("regnety_002", 64, {}),
        ("ghostnet_050", 64, {}),
        ("repvgg_a0", 64, {}),
        ("convnext_atto", 64, {}),
        ("edgenext_xx_small", 64, {}),
        ("mobilevit_xxs", 64, {}),
        ("mobileone_s0", 64, {}),
        ("vit_tiny_patch16_224", 32, {"img_size": 32}),
        ("deit_tiny_patch16_224", 32, {"img_size": 32}),
        ("swin_tiny_patch4_window7_224", 56, {"img_size": 56, "embed_dim": 24, "depths": (1, 1)}),
        ("poolformer_s12", 64, {}),
        ("fastvit_t8", 64, {}),
        ("tf_mobilenetv3_small_minimal_100", 64, {}),
        ("levit_128s", 224, {}),
        ("efficientvit_b0", 64, {}),
        ("mixer_s32_224", 224, {}),
        ("xcit_nano_12_p16_224", 64, {}),
        ("hrnet_w18_small", 64, {}),
        ("densenet121", 64, {"growth_rate": 8}),
    )
}
_SIDES = {"min_size": 128, "max_size": 192}
TORCHVISION: Mapping[str, Architecture] = {
    **{
        name: Architecture("torchvision", _vision(name), _plain(1, 3, 64, 64))
        for name in (
            "mobilenet_v2",
            "shufflenet_v2_x0_5",
            "squeezenet1_1",
            "mnasnet0_5",
            "efficientnet_v2_s",
            "googlenet",
        )
    },
    "swin_v2_t": Architecture("torchvision", _vision("swin_v2_t"), _plain(1, 3, 64, 64)),
    "lraspp": Architecture(
        "torchvision", _torchvision("lraspp_mobilenet_v3_large"), _plain(1, 3, 64, 64)
    ),
    "deeplabv3": Architecture(
        "torchvision", _torchvision("deeplabv3_mobilenet_v3_large"), _plain(2, 3, 64, 64)
    ),
    "raft": Architecture(
        "torchvision",
        _vision("raft_small"),
        lambda: [(torch.rand(1, 3, 128, 128), torch.rand(1, 3, 128, 128))],
    ),
    **{
        name: Architecture(
            "torchvision",
            # random weights give low scores: without this, nothing is found
            _detector(name, **{threshold: 0.001, limit: 20, **more}),
            lambda: [([torch.rand(3, 96, 96), torch.rand(3, 64, 80)],)],
        )
        for name, threshold, limit, more in (
            ("ssdlite320_mobilenet_v3_large", "score_thresh", "detections_per_img", {}),
            (
                "fasterrcnn_mobilenet_v3_large_320_fpn",
                "box_score_thresh",
                "box_detections_per_img",
                {},
            ),
            # these resize images to 800 pixels by default
            ("retinanet_resnet50_fpn", "score_thresh", "detections_per_img", _SIDES),
            (
                "keypointrcnn_resnet50_fpn",
                "box_score_thresh",
                "box_detections_per_img",
                # a box costs 7 GFLOP
                {**_SIDES, "box_detections_per_img": 2},
            ),
        )
    },
    "r3d_18": Architecture("torchvision", _vision("r3d_18"), _plain(1, 3, 4, 32, 32)),
}


def _torchaudio(name: str, **settings: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        from torchaudio import models

        its: nn.Module = getattr(models, name)(**settings).eval()
        return its

    return make


TORCHAUDIO: Mapping[str, Architecture] = {
    "wav2letter": Architecture(
        "torchaudio", _torchaudio("Wav2Letter", num_classes=8), _plain(1, 1, 2000)
    ),
    "deepspeech": Architecture(
        "torchaudio", _torchaudio("DeepSpeech", n_feature=16, n_hidden=32), _plain(1, 1, 20, 16)
    ),
    "conv-tasnet": Architecture(
        "torchaudio",
        _torchaudio(
            "ConvTasNet",
            enc_num_feats=16,
            msk_num_feats=8,
            msk_num_hidden_feats=16,
            msk_num_layers=2,
            msk_num_stacks=1,
        ),
        _plain(1, 1, 800),
    ),
    "conformer": Architecture(
        "torchaudio",
        _torchaudio(
            "Conformer",
            input_dim=16,
            num_heads=2,
            ffn_dim=32,
            num_layers=2,
            depthwise_conv_kernel_size=7,
        ),
        lambda: [(torch.randn(2, 30, 16), torch.tensor([30, 22]))],
    ),
    "squim-objective": Architecture("torchaudio", lambda: _squim().eval(), _plain(1, 4000)),
}


def _squim() -> nn.Module:
    from torchaudio.models import squim_objective_model

    its: nn.Module = squim_objective_model(
        feat_dim=16,
        win_len=16,
        d_model=16,
        nhead=2,
        hidden_dim=16,
        num_blocks=1,
        rnn_type="LSTM",
        chunk_size=21,
    )
    return its
