"""Configs of no known architecture: the nearest known one, and the fields that differ."""

from __future__ import annotations

import difflib

from planner.errors import Fault
from planner.spec.hf.fields import Config
from planner.spec.hf.registry import ARCHITECTURES, Architecture
from planner.spec.origin import Document

SILENT = frozenset(
    """
    architectures model_type auto_map torch_dtype dtype transformers_version _name_or_path use_cache
    bos_token_id eos_token_id pad_token_id sep_token_id unk_token_id decoder_start_token_id
    initializer_range rms_norm_eps layer_norm_eps layer_norm_epsilon norm_eps norm_epsilon
    attention_dropout hidden_dropout resid_pdrop embd_pdrop attn_pdrop dropout layerdrop
    residual_dropout embedding_dropout classifier_dropout hidden_dropout_prob
    attention_probs_dropout_prob summary_activation summary_first_dropout summary_proj_to_labels
    summary_type summary_use_proj task_specific_params id2label label2id problem_type
    is_encoder_decoder is_decoder add_cross_attention return_dict output_attentions
    output_hidden_states use_return_dict torchscript use_bfloat16 quantization_config
    tie_word_embeddings cache_implementation rope_theta rope_scaling rope_parameters max_length
    min_length do_sample temperature top_k top_p repetition_penalty prefix init_std
    scale_attn_weights reorder_and_upcast_attn scale_attn_by_inverse_layer_idx pretraining_tp
    attn_implementation _attn_implementation _attn_implementation_autoset use_mambapy
    attention_softmax_in_fp32 apply_residual_connection_post_layernorm gradient_checkpointing
    original_max_position_embeddings embd_layer logits_to_keep num_logits_to_keep use_flash_attn
    resid_dropout embd_dropout hidden_act_param bad_words_ids unsloth_version unsloth_fixed
    """.split()  # noqa: SIM905 - sixty words read better than sixty strings
)
"""Fields that change neither a graph nor its sizes."""

STRUCTURAL = ("expert", "moe", "lora_rank", "mamba", "ssm", "linear_", "mtp", "nextn", "conv",
              "no_rope", "alibi", "qk_norm", "cross_attention_layers", "encoder", "hybrid",
              "attn_type_list", "num_kv_shared", "altup", "laurel")  # fmt: skip
"""Parts of names of fields that ask for another structure."""
_MOST = 8


def fields_of(known: Architecture) -> frozenset[str]:
    """Fields that an architecture's reader asks for, learnt by letting it read nothing."""
    probe = Config({}, Document("<none>"))
    known.read(probe)
    return frozenset(probe.read) - SILENT


def nearest(config: Config, name: str) -> Architecture | None:
    """The architecture whose name and fields are most like those of a config."""
    given = frozenset(config.data) - SILENT

    def likeness(known: Architecture) -> float:
        reads = fields_of(known)
        shared = len(given & reads) / (len(given | reads) or 1)
        return shared + difflib.SequenceMatcher(None, name, known.name).ratio()

    return max((each for _, each in ARCHITECTURES), key=likeness, default=None)


def unsupported(config: Config, name: str, at: str) -> Fault:
    """The fault of a config that no reader is for. ``at`` is the field that names it."""
    known = nearest(config, name)
    message = f"architecture {name[:60]!r} is not supported"
    place = config.origin(at)
    if known is None:
        return place.fault(message)
    given, reads = frozenset(config.data) - SILENT, fields_of(known)
    parts = [f"the nearest supported is {known.name}"]
    if extra := _listed(sorted(given - reads)):
        parts.append(f"which has no {extra}")
    if lacking := _listed(sorted(reads - given)):
        parts.append(f"and reads also {lacking}")
    return place.fault(message, ", ".join(parts))


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(name[:40] for name in names[:_MOST]) + more


def leftover(config: Config) -> list[str]:
    """Fields that were not read and say something."""
    return [
        key
        for key, value in config.data.items()
        if key not in config.read and key not in SILENT and value not in _NOTHING
    ]


def structural(key: str) -> bool:
    """Whether a field's name asks for another structure."""
    return any(part in key for part in STRUCTURAL)


def unread(config: Config) -> list[str]:
    """Fields that were not read and say something; those that ask for a structure are faults."""
    plain = []
    for key in leftover(config):
        if structural(key):
            config.refuse(key, "asks for a structure that this architecture's blocks lack")
        else:
            plain.append(key)
    return plain


_NOTHING: tuple[object, ...] = (None, False, 0, 0.0, "", [], {})
