#include "ebb/train/config/field-inl.hpp"

namespace ebb::train {
namespace {

using T = TrainConfig;
using O = OptimizerKind;
using S = ScheduleKind;
constexpr Range kAbove0{.low = 0, .above = true};
constexpr Range kFrom0{.low = 0};
constexpr Range kBeta{.low = 0, .high = 1, .below = true};

void add_length(Fields<T>& t) {
  t.add("batch", &T::batch, {.low = 1},
        "examples of one optimizer step; the planner splits it to fit the memory", "256");
  t.add("epochs", &T::epochs, {.low = 1}, "passes over the data; or say steps", "20")
      .only("no steps", [](const T& c) { return c.steps == 0; });
  t.add("steps", &T::steps, {.low = 1}, "optimizer steps, instead of epochs", "5000",
        "(as many as the epochs have)")
      .only("no epochs", [](const T& c) { return c.steps > 0; });
  t.add("seed", &T::seed, kFrom0, "first weights, dropout and the order of rows", "42");
  t.add("threads", &T::threads, {.low = 0, .high = 1024},
        "threads that compute; 0: one for each CPU; the results are the same", "2");
  t.add("precision", &T::precision, {},
        "of the weights; 16 bits keep a copy in f32, f16 also scales the loss", "\"bf16\"");
}

void add_loss(Fields<T>& t) {
  t.add("loss", &T::loss, {}, "what is minimised", "\"huber\"",
        "(cross_entropy of classes, mse of numbers)");
  t.add("huber_delta", &T::huber_delta, kAbove0, "where the huber loss becomes linear", "0.5")
      .only("loss = huber", [](const T& c) { return c.loss == LossKind::huber; });
  t.add("label_smoothing", &T::label_smoothing, kBeta, "share of a label that all classes get",
        "0.1")
      .only("loss = cross_entropy", [](const T& c) {
        return c.loss.value_or(LossKind::cross_entropy) == LossKind::cross_entropy;
      });
  t.add("metrics", &T::metrics, {}, "figures of an evaluation: accuracy, perplexity, rmse, mae",
        "[\"accuracy\"]", "(those of the task)");
}

void add_optimizer(Fields<T>& t) {
  t.add("optimizer", &T::optimizer, {}, "the update rule", "\"sgd\"");
  t.add("lr", &T::lr, kAbove0, "learning rate", "3e-4", "(the optimizer's)");
  t.add("weight_decay", &T::weight_decay, kFrom0,
        "decay of the weights; decoupled from the gradient in adamw and lion", "0.1",
        "(0, of adamw 0.01)");
  t.add("momentum", &T::momentum, {.low = 0, .high = 1, .below = true}, "of the steps", "0.9")
      .only("optimizer", &T::optimizer, {O::sgd, O::rmsprop});
  t.add("dampening", &T::dampening, {.low = 0, .high = 1}, "of the momentum", "0.1")
      .only("optimizer", &T::optimizer, {O::sgd});
  t.add("nesterov", &T::nesterov, {}, "momentum that looks ahead", "true")
      .only("optimizer", &T::optimizer, {O::sgd});
  t.add("beta1", &T::beta1, kBeta, "decay of the first moment", "0.9", "(0.9)")
      .only("optimizer", &T::optimizer, {O::adam, O::adamw, O::lion});
  t.add("beta2", &T::beta2, kBeta, "decay of the second moment", "0.95", "(0.999, of lion 0.99)")
      .only("optimizer", &T::optimizer, {O::adam, O::adamw, O::lion});
  t.add("alpha", &T::alpha, kBeta, "decay of the squared gradient", "0.9")
      .only("optimizer", &T::optimizer, {O::rmsprop});
  t.add("eps", &T::eps, kAbove0, "keeps a division from 0", "1e-6", "(1e-8, of adagrad 1e-10)")
      .only("optimizer", &T::optimizer, {O::adam, O::adamw, O::rmsprop, O::adagrad});
  t.add("lazy", &T::lazy, {}, "rows without a gradient stay as they are, for large embeddings",
        "true")
      .only("optimizer", &T::optimizer, {O::adam, O::adamw});
}

void add_schedule(Fields<T>& t) {
  t.add("schedule", &T::schedule, {}, "learning rate over time, behind the warm-up", "\"cosine\"");
  t.add("warmup", &T::warmup, kFrom0,
        "steps in which the rate rises from 0; below 1: part of all steps", "0.05");
  t.add("lr_floor", &T::lr_floor, kFrom0, "the rate does not fall below", "1e-5")
      .only("schedule", &T::schedule, {S::cosine, S::plateau});
  t.add("decay_every", &T::decay_every, {}, "after which the rate is multiplied by the factor",
        "\"30 epochs\"")
      .only("schedule", &T::schedule, {S::step, S::exponential});
  t.add("decay_factor", &T::decay_factor, {.low = 0, .high = 1, .above = true, .below = true},
        "what the rate is multiplied by", "0.5")
      .only("schedule", &T::schedule, {S::step, S::exponential, S::plateau});
  t.add("plateau_patience", &T::plateau_patience, kFrom0,
        "evaluations in which the held-out loss makes no progress before the rate falls", "3")
      .only("schedule", &T::schedule, {S::plateau});
  t.add("plateau_threshold", &T::plateau_threshold, {.low = 0, .high = 1, .below = true},
        "relative fall of the loss that is progress", "0.001")
      .only("schedule", &T::schedule, {S::plateau});
}

void add_guards(Fields<T>& t) {
  t.add("clip_norm", &T::clip_norm, kFrom0, "length of the whole gradient at most; 0: not clipped",
        "1.0");
  t.add("clip_value", &T::clip_value, kFrom0, "of each element of the gradient; 0: not clipped",
        "0.5");
  t.add("ema", &T::ema, kBeta, "decay of averaged weights, which are evaluated; 0: none", "0.999");
  t.add("groups", &T::groups, {}, "parameters that are trained otherwise: see [[train.groups]]",
        "[{ names = \"*.bias\", weight_decay = 0 }]", "(none)");
  t.add("metric", &T::metric, {}, "the figure that says which weights are best: loss or a metric",
        "\"accuracy\"");
  t.add("mode", &T::mode, {}, "whether its least or its largest value is best", "\"max\"",
        "(max of accuracy, else min)");
  t.add("patience", &T::patience, kFrom0,
        "evaluations without progress before training stops; 0: it goes on", "5");
  t.add("min_change", &T::min_change, kFrom0, "of the metric, to be progress", "0.001");
  t.add(
      "bad_steps", &T::bad_steps, kFrom0,
      "steps in a row whose loss or gradient is NaN or infinite; they are not taken, after so many "
      "it stops; 0: at the first",
      "3");
  t.add("check_gradient", &T::check_gradient, {},
        "the whole gradient is looked at before a step is taken; false: only the loss, in less "
        "memory",
        "false");
}

}  // namespace

template <>
const Fields<TrainConfig>& fields() {
  static const Fields<TrainConfig> table = [] {
    Fields<TrainConfig> t("train");
    add_length(t);
    add_loss(t);
    add_optimizer(t);
    add_schedule(t);
    add_guards(t);
    return t;
  }();
  return table;
}

template <>
const Fields<GroupConfig>& fields() {
  static const Fields<GroupConfig> table = [] {
    using G = GroupConfig;
    Fields<G> t("train.groups");
    t.add("names", &G::names, {}, "parameters by name: * stands for any text, ? for a character",
          "\"layers.0.*\"", "(to be said)");
    t.add("lr_scale", &G::lr_scale, kFrom0, "times the learning rate", "0.1", "(1)");
    t.add("weight_decay", &G::weight_decay, kFrom0, "in place of train.weight_decay", "0",
          "(train.weight_decay)");
    t.add("frozen", &G::frozen, {}, "not trained", "true", "(false)");
    return t;
  }();
  return table;
}

}  // namespace ebb::train
