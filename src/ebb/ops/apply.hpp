// From an op struct to its OpType, and `apply`. For the files that define ops.
#pragma once

#include <string_view>
#include <tuple>
#include <type_traits>

#include "ebb/ops/op.hpp"

namespace ebb::ops {
namespace op_detail {

template <class F>
struct Signature;
template <class R, class C, class... A>
struct Signature<R (C::*)(A...) const> {
  using Result = R;
  static constexpr int arity = sizeof...(A);
  using First = std::tuple_element_t<0, std::tuple<A..., void>>;
};

template <class Op>
using ShapeOf = Signature<decltype(&Op::shape)>;
template <class Op>
inline constexpr bool variadic = std::is_same_v<std::decay_t<typename ShapeOf<Op>::First>, Specs>;
template <class R>
struct Count {
  static constexpr int value = 1;
};
template <std::size_t N>
struct Count<std::array<Spec, N>> {
  static constexpr int value = N;
};
template <class Op>
inline constexpr int output_count = Count<typename ShapeOf<Op>::Result>::value;

// Calls f(in[0], …, in[n-1]) for a fixed op, f(in) for a variadic one.
template <class Op, class Span, class F>
decltype(auto) spread(Span in, F&& f) {
  if constexpr (variadic<Op>) {
    return f(in);
  } else {
    return [&]<std::size_t... I>(std::index_sequence<I...>)->decltype(auto) { return f(in[I]...); }
    (std::make_index_sequence<ShapeOf<Op>::arity>{});
  }
}

// The name of a struct as it is written, without its namespaces.
template <class Op>
constexpr std::string_view struct_name() {
  std::string_view text = __PRETTY_FUNCTION__;  // "… [with Op = ebb::ops::RmsNorm; …]"
  text.remove_prefix(text.find("Op = ") + 5);
  text = text.substr(0, text.find_first_of(";]"));
  if (text.ends_with('>')) text = text.substr(0, text.find('<') + 1);
  return text.substr(text.rfind("::") == text.npos ? 0 : text.rfind("::") + 2);
}

// Whether `name` is that of a struct in snake_case: rms_norm of RmsNorm.
constexpr bool named_after(std::string_view name, std::string_view type) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < type.size(); ++i) {
    const bool capital = type[i] >= 'A' && type[i] <= 'Z';
    if (capital && i > 0 && (at >= name.size() || name[at++] != '_')) return false;
    const char letter = capital ? static_cast<char>(type[i] - 'A' + 'a') : type[i];
    if (at >= name.size() || name[at++] != letter) return false;
  }
  return at == name.size();
}

// Templates are named after what they are a template over.
template <class Op>
constexpr bool follows_the_rule_of_names() {
  if constexpr (struct_name<Op>().ends_with('<')) {
    return true;
  } else {
    return named_after(Op::name, struct_name<Op>());
  }
}

[[noreturn]] void wrong_input_count(const char* op, std::size_t given, int expected);
void register_op(OpType& type);

template <class Op>
struct Erased {
  static const Op& self(const void* op) { return *static_cast<const Op*>(op); }

  static void shape(const void* op, Specs in, Spec* out) {
    if constexpr (!variadic<Op>)
      if (in.size() != static_cast<std::size_t>(ShapeOf<Op>::arity))
        wrong_input_count(Op::name, in.size(), ShapeOf<Op>::arity);
    auto result = spread<Op>(in, [&](auto&&... s) { return self(op).shape(s...); });
    if constexpr (std::is_same_v<decltype(result), Spec>) {
      out[0] = result;
    } else {
      for (const Spec& s : result) *out++ = s;
    }
  }
  static Cost cost(const void* op, Specs in) {
    return spread<Op>(in, [&](auto&&... s) { return self(op).cost(s...); });
  }
  static std::size_t scratch(const void* op, Specs in) {
    if constexpr (requires { &Op::scratch; }) {
      return spread<Op>(in, [&](auto&&... s) { return self(op).scratch(s...); });
    } else {
      return 0;
    }
  }
  static void run(const void* op, Ins in, Outs out, Scratch scratch) {
    spread<Op>(in, [&](auto&&... x) {
      if constexpr (requires { self(op).run(x..., out, scratch); }) {
        self(op).run(x..., out, scratch);
      } else {
        [&]<std::size_t... O>(std::index_sequence<O...>) { self(op).run(x..., out[O]..., scratch); }
        (std::make_index_sequence<output_count<Op>>{});
      }
    });
  }
  static Needs needs(const void* op, int input) {
    if constexpr (requires { &Op::needs; }) {
      return self(op).needs(input);
    } else {
      return {};
    }
  }
  static void grad(const void* op, Back& back) {
    if constexpr (requires { &Op::grad; }) self(op).grad(back);
  }
  static bool equal(const void* a, const void* b) { return self(a) == self(b); }

  static Tensor view(const void* op, const Tensor& in) {
    if constexpr (requires { &Op::view; }) {
      return self(op).view(in);
    } else {
      return {};
    }
  }

  static std::uint32_t overwrites(const void* op, int output) {
    if constexpr (requires { &Op::overwrites; }) {
      return self(op).overwrites(output);
    } else {
      return 0;
    }
  }
  static BatchRule batch_rule(const void* op, const BatchInputs& batch, int output) {
    if constexpr (requires { &Op::batch_rule; }) {
      return self(op).batch_rule(batch, output);
    } else {
      return BatchRule::mixed;
    }
  }

  static std::size_t least_scratch(const void* op, Specs in) {
    if constexpr (requires { &Op::least_scratch; }) {
      return self(op).least_scratch(in);
    } else {
      return 0;
    }
  }
  static double slowdown(const void* op, Specs in, std::size_t scratch) {
    if constexpr (requires { &Op::slowdown; }) {
      return self(op).slowdown(in, scratch);
    } else {
      return 1;
    }
  }
  static Subsumed subsumes(const void* op) {
    if constexpr (requires { &Op::subsumes; }) {
      return self(op).subsumes();
    } else {
      return {};
    }
  }

  static AnyOp for_examples(const void* op, std::int64_t from, std::int64_t to) {
    if constexpr (requires { &Op::for_examples; }) {
      return self(op).for_examples(from, to);
    } else {
      return {};
    }
  }
  static AnyOp accumulating(const void* op, Specs in, int output) {
    if constexpr (requires { &Op::accumulating; }) {
      return self(op).accumulating(in, output);
    } else {
      return {};
    }
  }

  static std::optional<std::uint32_t> row_block_inputs(const void* op, Specs in) {
    if constexpr (kRowBlocks) {
      return self(op).row_block_inputs(in);
    } else {
      return {};
    }
  }
  static std::size_t row_block_scratch(const void* op, Specs in, std::int64_t rows) {
    if constexpr (kRowBlocks) {
      return self(op).row_block_scratch(in, rows);
    } else {
      return 0;
    }
  }
  static void run_row_block(const void* op, Ins in, Out rows, std::int64_t first, Scratch scratch) {
    if constexpr (kRowBlocks) self(op).run_row_block(in, rows, first, scratch);
  }

  static constexpr bool kOnce = requires { Op::once; };
  static constexpr bool kElementwise = requires { Op::elementwise; };
  static constexpr bool kHalf = requires { Op::half; };
  static constexpr bool kUnlisted = requires { Op::unlisted; };
  static constexpr bool kGrad = requires { &Op::grad; };
  static constexpr bool kView = requires { &Op::view; };
  static constexpr bool kTiled = requires { &Op::least_scratch; };
  static constexpr bool kSubsumes = requires { &Op::subsumes; };
  static constexpr bool kRowBlocks = requires { &Op::run_row_block; };

  // Known before any code runs: a program may call ops while its own globals are made.
  static constinit inline OpType type{
      .name = Op::name,
      .size = sizeof(Op),
      .outputs = output_count<Op>,
      .half = kHalf,
      .has_grad = kGrad,
      .shape = &Erased::shape,
      .cost = &Erased::cost,
      .scratch = &Erased::scratch,
      .run = &Erased::run,
      .needs = &Erased::needs,
      .grad = &Erased::grad,
      .equal = &Erased::equal,
      .view = kView ? &Erased::view : nullptr,
      .overwrites = &Erased::overwrites,
      .batch_rule = &Erased::batch_rule,
      .once = kOnce,
      .elementwise = kElementwise,
      .subsumes = kSubsumes ? &Erased::subsumes : nullptr,
      .least_scratch = kTiled ? &Erased::least_scratch : nullptr,
      .slowdown = &Erased::slowdown,
      .for_examples = &Erased::for_examples,
      .accumulating = &Erased::accumulating,
      .row_block_inputs = kRowBlocks ? &Erased::row_block_inputs : nullptr,
      .row_block_scratch = kRowBlocks ? &Erased::row_block_scratch : nullptr,
      .run_row_block = kRowBlocks ? &Erased::run_row_block : nullptr};
  static bool listed() {
    static_assert(std::is_trivially_copyable_v<Op> && sizeof(Op) <= kMaxAttributes);
    static_assert(follows_the_rule_of_names<Op>(), "an op's struct is its name in CamelCase");
    if constexpr (!kUnlisted) register_op(type);
    return true;
  }
  static inline const bool is_listed = listed();
};

}  // namespace op_detail

template <class Op>
const OpType& op_type() {
  (void)&op_detail::Erased<Op>::is_listed;  // so that there is one
  return op_detail::Erased<Op>::type;
}

template <class Op>
AnyOp any_op(const Op& op) {
  return {op_type<Op>(), &op};
}

// apply(op, x, …) → Tensor, or std::array<Tensor, N> of an op with N outputs.
template <class Op, class... T>
auto apply(const Op& op, const T&... in) {
  const Tensor* inputs[] = {&static_cast<const Tensor&>(in)...};
  std::array<Tensor, op_detail::output_count<Op>> out;
  call(op_type<Op>(), &op, inputs, out);
  if constexpr (op_detail::output_count<Op> == 1) {
    return std::move(out[0]);
  } else {
    return out;
  }
}

// For ops with any number of inputs.
template <class Op>
auto apply_all(const Op& op, std::span<const Tensor* const> in, int donated = -1) {
  std::array<Tensor, op_detail::output_count<Op>> out;
  call(op_type<Op>(), &op, in, out, donated);
  if constexpr (op_detail::output_count<Op> == 1) {
    return std::move(out[0]);
  } else {
    return out;
  }
}

}  // namespace ebb::ops
