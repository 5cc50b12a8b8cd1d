#include "ebb/train/config/names.hpp"

namespace ebb::train {

#define EBB_WORDS(Enum, ...)                            \
  template <>                                           \
  Words names_of<Enum>() {                              \
    static constexpr const char* all[] = {__VA_ARGS__}; \
    return all;                                         \
  }

EBB_WORDS(ModelKind, "mlp", "cnn", "resnet", "lstm", "gru", "gpt", "encoder", "layers")
EBB_WORDS(Positions, "learned", "rotary")
EBB_WORDS(LayerKind, "dense", "relu", "tanh", "sigmoid", "gelu", "gelu_tanh", "silu", "leaky_relu",
          "elu", "softplus", "dropout", "conv", "max_pool", "avg_pool", "mean", "batch_norm",
          "layer_norm", "rms_norm", "flatten", "reshape", "embedding", "positions", "lstm", "gru",
          "transformer")
EBB_WORDS(Take, "all", "last")
EBB_WORDS(Activation, "none", "relu", "tanh", "sigmoid", "gelu", "gelu_tanh", "silu")
EBB_WORDS(nn::TransformerOptions::Norm, "layer", "rms")
EBB_WORDS(nn::TransformerOptions::Gate, "gelu", "gelu_tanh", "swiglu")
EBB_WORDS(DataFormat, "auto", "csv", "npy", "npz", "safetensors", "idx", "jsonl", "text", "images",
          "digits", "sequences")
EBB_WORDS(Task, "classification", "regression", "language_model", "sequence_classification")
EBB_WORDS(MissingValues, "refuse", "mean", "zero")
EBB_WORDS(OptimizerKind, "sgd", "adam", "adamw", "rmsprop", "adagrad", "lion", "adafactor")
EBB_WORDS(ScheduleKind, "constant", "cosine", "step", "exponential", "plateau")
EBB_WORDS(LossKind, "cross_entropy", "mse", "mae", "huber")
EBB_WORDS(Precision, "f32", "bf16", "f16")
EBB_WORDS(Mode, "min", "max")
EBB_WORDS(Allow, "same_bits", "same_gradient")
EBB_WORDS(StateForm, "f32", "8bit")

#undef EBB_WORDS

bool is_generated(DataFormat format) {
  return format == DataFormat::digits || format == DataFormat::sequences;
}

bool is_text(const DataConfig& d) {
  if (d.format == DataFormat::text) return true;
  return d.format == DataFormat::jsonl &&
         (d.task ? *d.task == Task::language_model : d.target.empty());
}

bool takes_several(DataFormat format) {
  return format == DataFormat::csv || format == DataFormat::jsonl || format == DataFormat::npy ||
         format == DataFormat::text;
}

}  // namespace ebb::train
