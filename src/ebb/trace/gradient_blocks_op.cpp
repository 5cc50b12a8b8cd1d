// The update in blocks as an op: block after block, each member's own kernel in turn.
#include <algorithm>

#include "ebb/ops/apply.hpp"
#include "ebb/ops/row_block.hpp"
#include "ebb/optim/update_inputs.hpp"
#include "ebb/trace/gradient_blocks.hpp"

namespace ebb::trace {
namespace {

using At = ops::UpdateInputs;

std::uint64_t row_bytes(const Spec& spec) {
  return spec.shape[0] == 0 ? 0 : spec.bytes() / static_cast<std::uint64_t>(spec.shape[0]);
}

// From row `first` on, with what it was given whole or cut to some rows.
template <int kOutputs>
struct InBlocks {
  static constexpr auto name = "gradient_blocks";
  static constexpr bool once = true, unlisted = true;
  const GradientBlocks* what;  // the trace holds it
  std::int64_t first = 0;
  bool operator==(const InBlocks& o) const {
    return first == o.first && (what == o.what || *what == *o.what);
  }

  std::array<Spec, kOutputs> shape(ops::Specs in) const {
    std::array<Spec, kOutputs> out;
    for (std::size_t k = 0; k < out.size(); ++k) out[k] = in[what->cut_from + k];
    return out;
  }
  ops::Cost cost(ops::Specs) const {
    ops::Cost all;
    for (const ops::Cost& c : what->costs) {
      all.flops += c.flops;
      all.bytes += c.bytes;
    }
    return all;
  }
  std::size_t scratch(ops::Specs) const { return what->block * what->blocks + what->scratch; }
  std::uint32_t overwrites(int output) const { return 1u << (what->cut_from + output); }

  void run(ops::Ins in, ops::Outs out, ops::Scratch scratch) const {
    const std::int64_t rows = out[0].shape()[0];
    for (std::int64_t at = 0; at < rows; at += what->at_once)
      run_block(at, std::min(what->at_once, rows - at), in, out, scratch);
  }

 private:
  void run_block(std::int64_t at, std::int64_t rows, ops::Ins in, ops::Outs out,
                 ops::Scratch scratch) const {
    const GradientBlocks& w = *what;
    Spec specs[GradientBlocks::kMostInputs];
    ops::In ins[GradientBlocks::kMostInputs];
    std::copy(in.begin(), in.end(), ins);
    for (std::size_t i = w.cut_from; i < in.size(); ++i) {
      specs[i] = in[i].spec->with_axis(0, rows);
      ins[i] = {&specs[i],
                in[i].as<std::byte>() + static_cast<std::uint64_t>(at) * row_bytes(*in[i].spec)};
    }
    const Spec gradient = w.gradient.with_axis(0, rows);
    const auto block = [&](Id place) {
      return scratch.data() + (static_cast<std::uint64_t>(place) - w.inputs) * w.block;
    };
    const auto operand = [&](Id place) {
      return static_cast<std::size_t>(place) < w.inputs ? ins[place]
                                                        : ops::In{&gradient, block(place)};
    };
    for (const GradientBlocks::Member& m : w.members) {
      ops::In args[GradientBlocks::kMostOperands];
      for (std::size_t i = 0; i < m.in.size(); ++i) args[i] = operand(m.in[i]);
      ops::run_row_block(m.op, {args, m.in.size()}, {&gradient, block(m.out)}, first + at,
                         scratch.subspan(w.block * w.blocks));
    }
    ops::In args[At::param + GradientBlocks::kMostOutputs];
    args[At::rule] = ins[At::rule];
    args[At::scale] = ins[At::scale];
    args[At::gradient] = operand(w.members.back().out);
    ops::Out outs[GradientBlocks::kMostOutputs];
    for (std::size_t k = 0; k < out.size(); ++k) {
      args[At::param + k] = ins[w.cut_from + k];
      outs[k] = {&specs[w.cut_from + k],
                 out[k].template as<std::byte>() +
                     static_cast<std::uint64_t>(at) * row_bytes(*out[k].spec)};
    }
    w.update.type().run(w.update.attributes(), {args, At::param + out.size()}, {outs, out.size()},
                        {});
  }
};

}  // namespace

ops::AnyOp gradient_blocks_op(const GradientBlocks* what, std::size_t outputs) {
  const auto op = [&]<int n>(std::integral_constant<int, n>) {
    const InBlocks<n> blocks{what};
    return ops::AnyOp(ops::op_type<InBlocks<n>>(), &blocks);
  };
  if (outputs == 1) return op(std::integral_constant<int, 1>());
  if (outputs == 2) return op(std::integral_constant<int, 2>());
  return op(std::integral_constant<int, 3>());
}

const GradientBlocks* gradient_blocks_of(const Call& call) {
  const auto of = [&]<int n>(std::integral_constant<int, n>) -> const GradientBlocks* {
    if (&call.op.type() != &ops::op_type<InBlocks<n>>()) return nullptr;
    return static_cast<const InBlocks<n>*>(call.op.attributes())->what;
  };
  if (const GradientBlocks* w = of(std::integral_constant<int, 1>())) return w;
  if (const GradientBlocks* w = of(std::integral_constant<int, 2>())) return w;
  return of(std::integral_constant<int, 3>());
}

ops::AnyOp at_row(const ops::AnyOp& op, std::int64_t first) {
  const auto moved = [&]<int n>(std::integral_constant<int, n>) {
    InBlocks<n> blocks = *static_cast<const InBlocks<n>*>(op.attributes());
    blocks.first = first;
    return ops::AnyOp(op.type(), &blocks);
  };
  if (op.type().outputs == 1) return moved(std::integral_constant<int, 1>());
  if (op.type().outputs == 2) return moved(std::integral_constant<int, 2>());
  return moved(std::integral_constant<int, 3>());
}

}  // namespace ebb::trace
