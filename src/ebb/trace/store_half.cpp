#include "ebb/trace/store_half.hpp"

#include <algorithm>
#include <map>

#include "ebb/base/error.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/trace/ids.hpp"

namespace ebb::ops {

// A cast that stays where it is: were it fused with the one that reads it, nothing would have been
// stored.
struct Store {
  static constexpr auto name = "store";
  static constexpr bool half = true, unlisted = true;
  Cast cast;
  bool operator==(const Store&) const = default;
  Spec shape(const Spec& x) const { return cast.shape(x); }
  Cost cost(const Spec& x) const { return cast.cost(x); }
  void run(In x, Out y, Scratch scratch) const { cast.run(x, y, scratch); }
  BatchRule batch_rule(const BatchInputs& batch, int output) const {
    return cast.batch_rule(batch, output);
  }
};

}  // namespace ebb::ops

namespace ebb::trace {
namespace {

constexpr std::uint64_t kLeastBytes = 16 << 10;
constexpr Id kSoon = 4;            // calls: what is read back so early has no time to pay
constexpr std::uint64_t kFew = 8;  // a result so many times smaller than another of its call is a
                                   // statistic of it, such as a row's norm, and keeps its digits

class Storing {
 public:
  Storing(const Trace& from, DType type) : from_(from), type_(type) {}

  StoredHalf run() {
    find();
    out_.trace = from_;
    out_.trace.calls.clear();
    std::vector<Id> call_at(from_.calls.size());
    for (std::size_t c = 0; c < from_.calls.size(); ++c) {
      Call call = from_.calls[c];
      if (backward(call))
        for (Id& id : call.in) id = read_back(id, call, static_cast<Id>(c));
      call_at[c] = add(std::move(call));
      for (const Id b : stored_after_[static_cast<Id>(c)]) store(b);
    }
    for (std::size_t i = 0; i < from_.values.size(); ++i)  // those that were there before
      if (Id& call = out_.trace.values[i].call; call != kNone)
        call = call_at[static_cast<std::size_t>(call)];
    return std::move(out_);
  }

 private:
  struct Waiting {
    Id half = kNone;  // the copy
    Id wide = kNone;  // what was last made of it, and when it was read
    Id read = 0;
  };

  bool backward(const Call& call) const {
    return !call.finish && !call.view && !call.out.empty() &&
           from_.values[call.out[0]].category == Category::gradients;
  }

  bool worth_it(Id id) const {
    const Value& v = from_.values[id];
    if (v.kind != Kind::made || v.base != kNone || v.call == kNone) return false;
    const Call& maker = from_.calls[v.call];
    if (maker.view || maker.finish || backward(maker)) return false;
    if (v.spec.dtype != DType::f32 || v.spec.bytes() < kLeastBytes ||
        v.category != Category::activations)
      return false;
    if (maker.op.type().name == std::string_view("cast") &&
        is_half(from_.values[maker.in[0]].spec.dtype))
      return false;  // it is there in 16 bits already
    return std::all_of(maker.out.begin(), maker.out.end(), [&](Id other) {
      return v.spec.bytes() * kFew >= from_.values[other].spec.bytes();
    });
  }

  bool soon(Id call, Id later) const { return runs_before_[later] - runs_before_[call] <= kSoon; }

  // Which values wait, and after which call the forward pass is done with them.
  void find() {
    const std::size_t n = from_.values.size();
    Id runs = 0;
    for (const Call& call : from_.calls) runs_before_.push_back(call.view ? runs : runs++);
    std::vector<Id> last(n, kNone), first_back(n, kNone);
    std::vector<bool> fixed(n);  // seen from outside, or through a view that no call made
    for (std::size_t c = 0; c < from_.calls.size(); ++c) {
      const Call& call = from_.calls[c];
      const auto at = static_cast<Id>(c);
      if (call.view) continue;  // its readers count, wherever it stands
      for (const Id id : call.out) last[id] = at;
      for (const Id id : call.in) {
        const Id b = from_.base_of(id);
        if (backward(call)) {
          if (first_back[b] == kNone) first_back[b] = at;
        } else if (call.finish) {
          fixed[b] = true;
        } else if (first_back[b] == kNone) {
          last[b] = std::max(last[b], at);
        }
      }
    }
    each_outcome(from_, [&](Id id) { fixed[from_.base_of(id)] = true; });
    for (std::size_t i = 0; i < n; ++i) {
      const Value& v = from_.values[i];
      if (v.base != kNone && (v.call == kNone || !from_.calls[v.call].view)) fixed[v.base] = true;
    }
    for (std::size_t i = 0; i < n; ++i) {
      const auto id = static_cast<Id>(i);
      if (fixed[i] || first_back[i] == kNone || !worth_it(id) || soon(last[i], first_back[i]))
        continue;
      waiting_[id] = {};
      stored_after_[last[i]].push_back(id);
      ++out_.values;
      out_.before += from_.values[i].spec.bytes();
    }
  }

  Id add(Call call) {
    out_.trace.calls.push_back(std::move(call));
    return static_cast<Id>(out_.trace.calls.size()) - 1;
  }

  // A value made by the call that comes next, which has its number already; the calls of `from_`
  // get theirs at the end.
  Id add_value(Value v) {
    v.call = static_cast<Id>(out_.trace.calls.size());
    out_.trace.values.push_back(std::move(v));
    return static_cast<Id>(out_.trace.values.size()) - 1;
  }

  // op(id), of the type `to`: as early as it can be, or as late.
  template <class Op>
  Id made_by(const Op& op, DType to, Id id, Scope::Id scope, bool early) {
    const Id made = add_value(
        {{from_or_new(id).spec.shape, to}, Kind::made, 0, kNone, kNone, 0, Category::activations});
    add({ops::AnyOp(ops::op_type<Op>(), &op),
         {id},
         {made},
         scope,
         -1,
         false,
         false,
         early,
         !early});
    return made;
  }
  const Value& from_or_new(Id id) const { return out_.trace.values[id]; }

  void store(Id id) {
    const Scope::Id scope = from_.calls[from_.values[id].call].scope;
    waiting_[id].half = made_by(ops::Store{{type_}}, type_, id, scope, true);
  }

  // What the backward call reads instead of `id`.
  Id read_back(Id id, const Call& reader, Id at) {
    const auto found = waiting_.find(from_.base_of(id));
    if (found == waiting_.end() || found->second.half == kNone) return id;
    Waiting& w = found->second;
    if (takes_half(reader, id)) return view_like(id, w.half);
    if (w.wide == kNone || !soon(w.read, at))
      w.wide = made_by(ops::Cast{DType::f32}, DType::f32, w.half, reader.scope, false);
    w.read = at;
    return view_like(id, w.wide);
  }

  // Whether the reader gives the same results' specs when it is given `id` in 16 bits.
  bool takes_half(const Call& reader, Id id) const {
    const ops::OpType& type = reader.op.type();
    if (!type.half) return false;
    std::vector<Spec> specs;
    for (const Id in : reader.in) {
      specs.push_back(from_or_new(in).spec);
      if (in == id) specs.back().dtype = type_;
    }
    Spec made[ops::kMaxOutputs];
    try {
      type.shape(reader.op.attributes(), specs, made);
    } catch (const Error&) {
      return false;
    }
    for (std::size_t i = 0; i < reader.out.size(); ++i)
      if (made[i] != from_.values[reader.out[i]].spec) return false;
    return true;
  }

  // The view of `base` that `id` is of its own base.
  Id view_like(Id id, Id base) {
    const Value v = from_.values[id];
    if (v.base == kNone) return base;
    Call call = from_.calls[v.call];
    call.in[0] = view_like(call.in[0], base);
    const DType type = from_or_new(base).spec.dtype;
    Value view = v;
    view.spec.dtype = type;
    view.base = base;
    view.offset = v.offset * size_of(type) / size_of(v.spec.dtype);
    const Id made = add_value(view);
    call.out = {made};
    add(std::move(call));
    return made;
  }

  const Trace& from_;
  DType type_;
  StoredHalf out_;
  std::vector<Id> runs_before_;  // per call: how many others do more than give a view
  std::map<Id, Waiting> waiting_;
  std::map<Id, std::vector<Id>> stored_after_;
};

}  // namespace

StoredHalf stored_half(const Trace& trace, DType type) { return Storing(trace, type).run(); }

bool stores_half(const Trace& trace) {
  return std::any_of(trace.calls.begin(), trace.calls.end(), [](const Call& call) {
    return &call.op.type() == &ops::op_type<ops::Store>();
  });
}

}  // namespace ebb::trace
