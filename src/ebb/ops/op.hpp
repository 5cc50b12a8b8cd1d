// One op, one place. An op is a plain struct in ebb::ops, and a function in ebb that calls it:
//
// clang-format off
//   struct RmsNorm {                                         // y = w * x / sqrt(mean(x^2) + eps)
//     static constexpr auto name = "rms_norm";
//     float eps = 1e-6f;                                     // attributes: trivially copyable
//     bool operator==(const RmsNorm&) const = default;
//     Spec shape(const Spec& x, const Spec& w) const;        // throws, naming the op and both shapes
//     Cost cost(const Spec& x, const Spec& w) const;         // flops and bytes, for the planner
//     void run(In x, In w, Out y, Scratch scratch) const;    // calls a kernel
//     Needs needs(int input) const;                          // what that input's gradient reads
//     void grad(Back& back) const;                           // in ops: taped, traced, planned too
//   };
//
// Tape, trace, planner and executor read only that. name, ==, shape, cost and run are required. Limits:
// kMaxAttributes bytes of attributes, kMaxOutputs outputs, 32 inputs that needs() or masks can name.
//
// Names: the struct is the op's name in CamelCase (ops/apply.hpp asserts it); the gradient of all inputs
// of X is XBackward, that of one of them XInputGrad or XWeightGrad. A family that differs in a function
// alone is a template over it, and named after that: Unary<math::Unary::exp> is "exp"; likewise
// UnaryBackward<…>, Binary<…>, Reduce<…>.
//
// Several outputs: shape() gives std::array<Spec, N>, and run() takes each as an Out, or all as Outs.
// Any number of inputs: Specs in place of each Spec, Ins in place of each In. No gradient is passed on
// where grad() is left out; it reads nothing of the call where needs() is. `apply(RmsNorm{…}, x, w)`
// runs it here and now and shows it to the tapes of this thread.
//
// Optional, each on its own. What it is:
//   static constexpr bool half = true;                       // takes 16-bit floats itself; others are
//                                                            // given them widened to f32
//   static constexpr bool elementwise = true;                // one result, each element of it from the
//                                                            // elements at its place, inputs broadcast
//   static constexpr bool once = true;                       // its result may not be made twice, such as an update
//   static constexpr bool unlisted = true;                   // made by a pass, not called: not registered
//   Tensor view(const Tensor& x) const;                      // a result that shares its input's bytes, or
//                                                            // an empty handle where it must be run
//   Subsumed subsumes() const;                               // the call that this one makes needless
//
// The memory it works in:
//   std::size_t scratch(const Spec& x, const Spec& w) const; // bytes that run() needs besides
//   std::size_t least_scratch(Specs in) const;               // run() also works, in the same bits, with
//                                                            // any scratch from this to scratch() …
//   double slowdown(Specs in, std::size_t scratch) const;    // … in so many times its time
//   std::uint32_t overwrites(int output) const;              // bit i: that output may take the bytes of
//                                                            // input i, being of one spec
//
// A batch in micro-batches:
//   BatchRule batch_rule(const BatchInputs& batch,           // how an output treats the examples of a
//                        int output) const;                  // batch; BatchRule::mixed without it
//   AnyOp for_examples(std::int64_t from,                    // the op that does the same for `to` examples
//                      std::int64_t to) const;               // as this one for `from`, where attributes
//                                                            // depend on their number; empty: none
//   AnyOp accumulating(Specs in, int output) const;          // the op that takes one more input, from which
//                                                            // this output, a sum over examples, starts its
//                                                            // chain; empty: none
//
// A block of rows of its result (ops/row_block.hpp), all three or none:
//   std::optional<std::uint32_t> row_block_inputs(Specs in) const;
//   std::size_t row_block_scratch(Specs in, std::int64_t rows) const;
//   void run_row_block(Ins in, Out rows, std::int64_t first, Scratch scratch) const;
// clang-format on
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/tensor/tensor.hpp"

namespace ebb::ops {

// What a call's time goes into: a machine is measured by each of these, since one speed does not tell
// them all.
enum class Work : std::uint8_t {
  elementwise,  // arithmetic on elements, copies, updates
  product,      // of matrices
  convolution,
  depthwise,  // a convolution of few channels a group
  attention,
  cell,       // recurrent: one time after the other
  reduction,  // along axes: also norms, softmax, losses, windows
  gather,     // rows of a table by index
  scatter     // sums into rows of a table by index
};
inline constexpr int kWorks = 9;

struct Cost {
  double flops = 0;  // multiply-adds count 2
  double bytes = 0;  // read and written
  Work work = Work::elementwise;
};

// A tensor as a kernel call sees it.
struct In {
  const Spec* spec;
  const void* data;
  template <class T>
  const T* as() const {
    return static_cast<const T*>(data);
  }
  const Shape& shape() const { return spec->shape; }
  DType dtype() const { return spec->dtype; }
  std::int64_t size() const { return spec->size(); }
};

struct Out {
  const Spec* spec;
  void* data;
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  const Shape& shape() const { return spec->shape; }
  DType dtype() const { return spec->dtype; }
  std::int64_t size() const { return spec->size(); }
};

using Scratch = std::span<std::byte>;
using Specs = std::span<const Spec>;
using Ins = std::span<const In>;
using Outs = std::span<const Out>;

// Which of an op's inputs and outputs the gradient of one input reads. Only these are kept for the
// backward pass, and only when that gradient will be asked for.
struct Needs {
  std::uint32_t inputs = 0, outputs = 0;  // bit i: input (output) i

  static constexpr Needs nothing() { return {}; }
  static constexpr Needs input(int i) { return {1u << i, 0}; }
  static constexpr Needs output(int i = 0) { return {0, 1u << i}; }
  constexpr Needs operator|(Needs o) const { return {inputs | o.inputs, outputs | o.outputs}; }
};

// How an op treats a batch that is taken in parts. A tensor carries the batch where its first axis
// is made of `examples` equal pieces, one after the other.
struct BatchInputs {
  Specs in;
  std::uint32_t carry;    // bit i: input i carries the batch
  std::uint32_t sums;     // bit i: input i is a sum over the examples, as far as they go
  std::int64_t examples;  // in this part
  bool carries(std::size_t i) const { return carry >> i & 1; }
  bool sum(std::size_t i) const { return sums >> i & 1; }
};
enum class BatchRule : std::uint8_t {
  mixed,  // an example depends on others, or nobody has said that it does not: the batch stays
          // whole
  per_example,  // the result carries the batch: each example's part comes from that example alone
  summed,       // the result is a sum over the examples, in their order, one chain for each element
                // that starts from the input it overwrites, where there is one
};

// One call of an op on the way back: gradients of its outputs come in, those of its inputs go out.
class Back {
 public:
  virtual int inputs() const = 0;
  virtual const Spec& in_spec(int i) const = 0;
  virtual const Spec& out_spec(int i = 0) const = 0;
  virtual const Tensor& in(int i) const = 0;       // kept because needs() said so
  virtual const Tensor& out(int i = 0) const = 0;  // likewise
  virtual const Tensor& d(int i = 0) = 0;  // gradient of output i; zeros where nothing flows
  virtual Tensor take_d(int i = 0) = 0;    // d(i), handed over: its bytes may be reused
  virtual bool has(int i) const = 0;       // whether anything flows into output i
  virtual bool wants(int i) const = 0;     // whether input i's gradient is asked for

  // What the gradient of input i already amounts to, handed over to be added to: a sum over
  // examples starts its chain from it, so that a batch in parts gives the bits of the whole. Empty
  // when there is nothing yet. Whoever takes it gives back a gradient that includes it.
  virtual Tensor take(int i) = 0;
  virtual void give(int i, Tensor gradient) = 0;  // adds to what was not taken
  // The gradient of input i as rows (i…, rest…) that belong to `indices` (i…) of its first axis,
  // where it is wanted so. False: it is not, give it whole.
  virtual bool give_sparse(int i, const Tensor& indices, Tensor rows) = 0;

 protected:
  ~Back() = default;
};

struct Subsumed;  // below
class AnyOp;      // likewise

// What is known of an op without its type. One for each op struct, registered when first linked in.
struct OpType {
  const char* name;
  std::size_t size;  // of the attributes
  int outputs;
  bool half;  // takes 16-bit floats itself
  bool has_grad;
  void (*shape)(const void* op, Specs in, Spec* out);
  Cost (*cost)(const void* op, Specs in);
  std::size_t (*scratch)(const void* op, Specs in);
  void (*run)(const void* op, Ins in, Outs out, Scratch scratch);
  Needs (*needs)(const void* op, int input);
  void (*grad)(const void* op, Back& back);
  bool (*equal)(const void* a, const void* b);
  Tensor (*view)(const void* op, const Tensor& in);
  std::uint32_t (*overwrites)(const void* op, int output);
  BatchRule (*batch_rule)(const void* op, const BatchInputs& batch, int output);
  bool once;
  bool elementwise;
  Subsumed (*subsumes)(const void* op);                    // null: nothing
  std::size_t (*least_scratch)(const void* op, Specs in);  // null: all of it
  double (*slowdown)(const void* op, Specs in, std::size_t scratch);
  AnyOp (*for_examples)(const void* op, std::int64_t from,
                        std::int64_t to);                       // empty: there is none
  AnyOp (*accumulating)(const void* op, Specs in, int output);  // empty: there is none
  // Null: it makes its result as a whole. Callers use ops/row_block.hpp.
  std::optional<std::uint32_t> (*row_block_inputs)(const void* op, Specs in);
  std::size_t (*row_block_scratch)(const void* op, Specs in, std::int64_t rows);
  void (*run_row_block)(const void* op, Ins in, Out rows, std::int64_t first, Scratch scratch);
  OpType* next = nullptr;
};

// Every op that is linked into this program, by name.
std::vector<const OpType*> registered_ops();

inline constexpr std::size_t kMaxAttributes = 192;
inline constexpr int kMaxOutputs = 4;

// An op's attributes without its type: what a tape or a trace keeps of a call.
class AnyOp {
 public:
  AnyOp() = default;
  AnyOp(const OpType& type, const void* op) : type_(&type) { std::memcpy(bytes_, op, type.size); }
  explicit operator bool() const { return type_ != nullptr; }
  const OpType& type() const { return *type_; }
  const void* attributes() const { return bytes_; }
  bool operator==(const AnyOp& o) const {
    return type_ == o.type_ && type_->equal(bytes_, o.bytes_);
  }

 private:
  const OpType* type_ = nullptr;
  alignas(16) std::byte bytes_[kMaxAttributes];
};

// A call of `op` with the first `inputs` inputs of this call gives what this one gives from result
// `from` on, bit for bit: a way back that comes by the loss again.
struct Subsumed {
  AnyOp op;
  int inputs, from;
};

// A gradient rule that is not an op's: a function the user gave, a block that is recomputed.
class CustomGrad {
 public:
  virtual ~CustomGrad() = default;
  virtual const char* name() const = 0;
  virtual void grad(Back& back) const = 0;
};

// Sees every op call of this thread while it is in the list. Tapes are recorders.
class Recorder {
 public:
  virtual void record(const OpType& type, const void* op, std::span<const Tensor* const> in,
                      std::span<const Tensor> out) = 0;
  virtual void record(std::shared_ptr<const CustomGrad> rule, std::span<const Tensor* const> in,
                      std::span<const Tensor> out) = 0;
  // Whether its gradient may be asked for.
  virtual bool tracks(const Tensor&) const { return false; }
  virtual void failed() {}  // an op threw: what is recorded is not the whole
  Recorder* outer = nullptr;

 protected:
  ~Recorder() = default;
};
Recorder*& recorders();  // innermost first
inline bool recording() { return recorders() != nullptr; }
void remove_recorder(Recorder& recorder);  // from this thread's list, also where it is set aside

// Another list of recorders for as long as this lives; null: nobody records.
class RecorderSwap {
 public:
  explicit RecorderSwap(Recorder* list);
  ~RecorderSwap();
  RecorderSwap(const RecorderSwap&) = delete;
  RecorderSwap& operator=(const RecorderSwap&) = delete;
  Recorder* aside() const { return aside_; }

 private:
  friend void remove_recorder(Recorder&);
  Recorder* aside_;
  RecorderSwap* outer_;
};

// The one way an op is called. `donated`, when given, is the index of an input whose handle the
// caller gives away: its bytes become output 0's where nobody else holds them, nobody records, and
// the specs agree.
void call(const OpType& type, const void* op, std::span<const Tensor* const> in,
          std::span<Tensor> out, int donated = -1);

}  // namespace ebb::ops
