"""The operators of PyTorch that random modules may have, and a model to build their library of."""

from __future__ import annotations

from typing import Final

from tests import ptl

# of `aten`, in all overloads that the runtime has
_NAMES: Final = """
Bool Float FloatImplicit Int IntImplicit ScalarImplicit __and__ __lshift__ __or__ __rshift__
__xor__ _convolution _local_scalar_dense _native_multi_head_attention _nested_tensor_from_mask
_transformer_encoder_layer_fwd _upsample_bicubic2d_aa _upsample_bilinear2d_aa
_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d abs abs_ acos
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d
adaptive_max_pool2d adaptive_max_pool3d add add_ addbmm addcdiv addcmul addcmul_ addmm addmv
adjoint alias all allclose amax amin aminmax any arange argmax argmin argsort as_strided asin
atan atan2 atleast_1d atleast_2d avg_pool1d avg_pool2d avg_pool3d baddbmm batch_norm bernoulli
bincount bitwise_and bitwise_left_shift bitwise_not bitwise_not_ bitwise_or bitwise_xor bmm
broadcast_tensors bucketize cat cdist ceil ceil_ celu celu_ chunk clamp clamp_ clamp_max
clamp_max_ clamp_min clamp_min_ clone column_stack complex conj constant_pad_nd contiguous
conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution copy_
copysign cos cos_ cosh cosine_similarity count_nonzero cross cross_entropy_loss cummax cummin
cumprod cumsum cumsum_ data detach diag diag_embed diagonal digamma dim div div_ dot dropout
dropout_ dstack einsum elu elu_ embedding embedding_bag empty empty_like eq eq_ equal erf erf_
erfc exp exp_ expand expand_as expm1 expm1_ feature_dropout fill fill_ fill_diagonal_ flatten
flip floor floor_ floor_divide floor_divide_ fmod fmod_ frac full full_like gather gcd ge gelu
gelu_ ger glu group_norm gru gru_cell gt gt_ hardshrink hardsigmoid hardsigmoid_ hardswish
hardswish_ hardtanh hardtanh_ heaviside hsplit hstack huber_loss hypot imag index index_add
index_add_ index_copy index_copy_ index_fill_ index_put index_put_ index_select instance_norm
is_floating_point is_nonzero isfinite isinf isnan item kron kthvalue l1_loss layer_norm lcm le
leaky_relu leaky_relu_ lerp lerp_ lgamma linalg_vector_norm linear linspace log log10 log1p
log1p_ log2 log_ log_sigmoid log_softmax logaddexp logical_and logical_not logical_not_
logical_or logical_xor logit logit_ logsumexp lstm lstm_cell lt lt_ mT masked_fill masked_fill_
masked_scatter masked_scatter_ masked_select matmul max max_pool1d max_pool2d max_pool3d maximum
mean median meshgrid min minimum mish mish_ mm mode moveaxis movedim mse_loss mul mul_ mv
nan_to_num nan_to_num_ nanmean nansum narrow native_batch_norm ne ne_ neg neg_ new_full new_ones
new_zeros nonzero nonzero_numpy nonzero_static norm numel numpy_T one_hot ones ones_like outer
pad pairwise_distance permute pixel_shuffle pixel_unshuffle positive pow pow_ prelu prod put_
rand_like randn_like ravel real reciprocal reciprocal_ reflection_pad1d reflection_pad2d relu
relu6 relu6_ relu_ remainder remainder_ renorm repeat replication_pad1d replication_pad2d
reshape reshape_as resize_ rnn_relu rnn_tanh roll rot90 round round_ rrelu rsqrt rsqrt_ rsub
scalar_tensor scaled_dot_product_attention scatter scatter_ scatter_add scatter_add_
searchsorted select select_scatter selu selu_ set_ sgn sigmoid sigmoid_ sign sign_ silu silu_
sin sin_ sinh size slice slice_scatter smooth_l1_loss softmax softplus softshrink sort split
split_with_sizes sqrt sqrt_ square square_ squeeze squeeze_ stack std std_mean sub sub_ sum
swapaxes swapdims t take take_along_dim tan tanh tanh_ tensor tensor_split threshold threshold_
tile to topk trace transpose transpose_ tril tril_ triu triu_ true_divide trunc trunc_ type_as
unbind unflatten unfold unique_consecutive unsafe_chunk unsafe_split unsqueeze unsqueeze_
upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d
upsample_nearest3d upsample_trilinear3d var var_mean view view_as view_as_complex view_as_real
vsplit vstack where xlogy zero_ zeros zeros_like
"""
OPERATORS: Final = tuple(_NAMES.split())


def starting_model() -> bytes:
    """A model that adds its input to itself."""
    rows = [
        ("STOREN", 1, 2),
        ("LOAD", 2, 0),
        ("MOVE", 2, 0),
        ("LOADC", 0, 0),
        ("OP", 0, 0),
        ("RET", 0, 0),
    ]
    tables = ptl.code(
        ptl.tuple_of(*(ptl.instruction(*row) for row in rows)),
        operators=ptl.tuple_of(ptl.operator("aten::add", "Tensor", 3)),
        constants=ptl.tuple_of(ptl.number(1)),
    )
    arguments = ptl.argument("self", ptl.MODULE), ptl.argument("x", "Tensor")
    function = ptl.function(tables=tables, signature=ptl.schema(ptl.tuple_of(*arguments)))
    return ptl.model(ptl.bytecode(function), ptl.module())
