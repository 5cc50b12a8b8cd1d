// Records the ops of this thread while it is alive, and gives gradients.
//
//   Tape tape;                                  // variables are watched without being asked
//   tape.watch(x);                              // other tensors when they are
//   Tensor y = x * x;
//   Tensor dy_dx = tape.gradient(y, x);
//
// A one-shot tape (the default) frees each kept value as soon as the walk back has used it, and
// gives gradients once. A persistent tape gives them as often as asked and frees on release() or at
// its end. Gradients of gradients: the walk back is made of ops, which outer tapes record. (A tape does
// not record its own: a gradient of its own gradient is refused.)
#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ebb/ops/op.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/tensor/variable.hpp"

namespace ebb {

struct Loss;

namespace tape_detail {
class Record;  // what a tape has seen
struct RecordDrop {
  void operator()(Record* record) const;
};
}  // namespace tape_detail

// What stands in for the gradient of a source the result does not depend on.
enum class Unconnected { none, zeros };  // none: an empty handle

struct GradientOptions {
  Tensor output_gradient = {};  // what flows into the result; ones where empty
  Unconnected unconnected = Unconnected::none;
};

// The gradient of a source of which only some rows were picked, as an embedding's weight: rows and
// where they belong. An index may occur more than once; its rows are added up in their order.
struct SparseGradient {
  std::int64_t most = 0;  // what is asked for: rows at most, 0 for the whole gradient in any case
  Tensor indices, rows;   // (i…), (i…, rest…); empty where the gradient was given whole
};

struct TapeOptions {
  bool persistent = false;
  bool watch_variables = true;
};

class Tape {
 public:
  explicit Tape(TapeOptions options = {});
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  void watch(const Tensor& x);  // a floating tensor

  Tensor gradient(const Tensor& y, const Tensor& x, const GradientOptions& options = {});
  std::vector<Tensor> gradient(const Tensor& y, std::span<const Tensor> xs,
                               const GradientOptions& options = {});
  std::vector<Tensor> gradient(const Tensor& y, std::span<const Variable> xs,
                               const GradientOptions& options = {});
  std::vector<Tensor> gradient(const Tensor& y, std::initializer_list<Tensor> xs,
                               const GradientOptions& options = {}) {
    return gradient(y, std::span<const Tensor>(xs.begin(), xs.size()), options);
  }
  // Of the loss's sum, not its mean: sums of parts add up to the sum of the whole.
  std::vector<Tensor> gradient(const Loss& loss, std::span<const Variable> xs,
                               const GradientOptions& options = {});

  std::vector<Tensor> gradient(const Loss& loss, std::initializer_list<Tensor> xs,
                               const GradientOptions& options = {});

  // The gradient of Σ <ys[i], output_gradients[i]>, added to what `into` holds (empty handles: to
  // nothing): each sum over examples goes on from there, bit for bit as if it had never paused.
  // A source that one gather alone has read, and that starts from nothing, comes as `sparse` where
  // that was asked for, and its place in `into` stays empty.
  void gradient_into(std::span<const Tensor> ys, std::span<const Tensor> output_gradients,
                     std::span<const Tensor> xs, std::span<Tensor> into);
  void gradient_into(std::span<const Tensor* const> ys,
                     std::span<const Tensor* const> output_gradients,
                     std::span<const Tensor* const> xs, std::span<Tensor> into,
                     std::span<SparseGradient> sparse = {});  // for each source, where given

  Tensor jacobian(const Tensor& y, const Tensor& x);        // (y.shape…, x.shape…)
  Tensor batch_jacobian(const Tensor& y, const Tensor& x);  // (rows, y.row…, x.row…), rows apart

  void release();                                        // frees what is kept; the tape is used up
  bool recorded(const Tensor& y) const;                  // whether this tape saw how y came about
  bool depends(const Tensor& y, const Tensor& x) const;  // whether a gradient of y flows to x
  bool used_up() const;                                  // by a gradient (one-shot) or release()
  bool walked() const { return walked_; }                // whether a gradient was asked for
  const random::State& draws() const { return draws_; }  // this thread's, when the tape began
  static Tape* innermost();                              // of this thread, or null

  // A new value for a variable that the forward pass computes on its way, such as a running mean. It
  // is assigned by commit(), or when the tape ends (an inner tape hands it to the outer one). Where
  // an op, a gradient or a step has failed the variable stays as it was, and the step's random draws
  // are given back, so that another try draws the same.
  void assign_at_end(const Variable& variable, Tensor value);
  const Tensor& latest(const Variable& variable) const;  // the value waiting, or the variable's
  void commit();   // the step is done: what waits is assigned now
  void discard();  // the step has failed: what waits is forgotten

  // No tape of this thread records while this lives.
  struct Pause : ops::RecorderSwap {
    Pause() : RecorderSwap(nullptr) {}
  };

 private:
  std::vector<Tensor> walk_to(const Tensor& y, std::span<const Tensor* const> xs,
                              const GradientOptions& options);
  void wait_for(const Variable& variable, Tensor value);

  std::unique_ptr<tape_detail::Record, tape_detail::RecordDrop> record_;
  std::vector<std::pair<Variable, Tensor>> at_end_;
  int exceptions_;       // in flight when the tape began
  random::State draws_;  // when the tape began
  bool open_ = true;     // neither committed nor discarded
  bool walked_ = false;
  Tape* outer_;
};

}  // namespace ebb
