// [memory], [every] and [output]: how a run goes, not what it learns.
#include "ebb/train/config/field-inl.hpp"

namespace ebb::train {

template <>
const Fields<MemoryConfig>& fields() {
  static const Fields<MemoryConfig> table = [] {
    using M = MemoryConfig;
    Fields<M> t("memory");
    t.add("budget", &M::budget, {},
          "memory of the whole process; auto: what the machine or the container has", "\"64MiB\"");
    t.add("spill", &M::spill, {}, "activations, weights and optimizer state may go to a file",
          "false");
    t.add("spill_directory", &M::spill_directory, {}, "where that file is", "\"/var/tmp\"",
          "(TMPDIR, else /var/tmp)")
        .only("spill = true", [](const M& m) { return m.spill; });
    t.add("recompute", &M::recompute, {}, "activations may be computed twice instead of kept",
          "false");
    t.add("allow", &M::allow, {},
          "what may be done to fit: nothing that changes a bit, or splits that round otherwise",
          "\"same_bits\"");
    t.add("activations", &M::activations, {},
          "approximate: kept activations may be stored in 16 bits", "\"bf16\"");
    t.add("optimizer_state", &M::optimizer_state, {}, "approximate: the state of adamw in 8 bits",
          "\"8bit\"");
    t.add("micro_batch", &M::micro_batch, {.low = 0},
          "examples that are computed at once; 0: the planner's choice", "16");
    t.add("independent_micro_batches", &M::independent_micro_batches, {},
          "approximate: batch norm may see each micro-batch by itself", "true");
    return t;
  }();
  return table;
}

template <>
const Fields<EveryConfig>& fields() {
  static const Fields<EveryConfig> table = [] {
    using E = EveryConfig;
    Fields<E> t("every");
    t.add("log", &E::log, {}, "a line of loss, rate and speed", "\"5s\"");
    t.add("eval", &E::eval, {}, "an evaluation of the held-out data", "500");
    t.add("save", &E::save, {}, "a checkpoint", "\"10min\"");
    t.add("sample", &E::sample, {}, "a text that the language model makes", "\"1 epoch\"");
    return t;
  }();
  return table;
}

template <>
const Fields<OutputConfig>& fields() {
  static const Fields<OutputConfig> table = [] {
    using O = OutputConfig;
    Fields<O> t("output");
    t.add("directory", &O::directory, {}, "where the run is kept, relative to the current folder",
          "\"runs/first\"", "(runs/ and the name of the config)");
    t.add("keep_last", &O::keep_last, {.low = 1}, "checkpoints that are kept", "5");
    t.add("keep_best", &O::keep_best, {}, "the best one is saved and kept, too", "false");
    t.add("tensorboard", &O::tensorboard, {}, "event files for TensorBoard", "false");
    t.add("csv", &O::csv, {}, "metrics.csv beside metrics.jsonl", "false");
    t.add("prompt", &O::prompt, {}, "what a sampled text begins with", "\"Once upon\"");
    t.add("sample_tokens", &O::sample_tokens, {.low = 1}, "length of a sampled text", "100");
    t.add("temperature", &O::temperature, {.low = 0}, "of samples; 0: the likeliest token", "1.0");
    return t;
  }();
  return table;
}

}  // namespace ebb::train
