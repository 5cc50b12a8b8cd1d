#include "ebb/tape/record.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "ebb/base/error.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/binary.hpp"

namespace ebb::tape_detail {

using namespace ops;

namespace {

// Emptied records wait here for the next tape of this thread.
std::vector<std::unique_ptr<Record>>& spare_records() {
  thread_local std::vector<std::unique_ptr<Record>> spare;
  return spare;
}

constexpr std::size_t kSpare = 4;
constexpr std::uint8_t kSource = 2;  // reaches itself, and its gradient is a result

std::size_t hash(std::uint64_t id) { return (id * 0x9e3779b97f4a7c15ull) >> 20; }

// a + b, in a's bytes where nobody else holds them.
Tensor add_to(Tensor a, const Tensor& b) {
  const Tensor* in[] = {&a, &b};
  return apply_all(Add{}, in, 0);
}

// One call on the way back.
class Step final : public Back {
 public:
  Step(Record::Storage& s, const Record::Call& call) : s_(s), call_(call) {}

  int inputs() const override { return static_cast<int>(call_.inputs); }
  const Spec& in_spec(int i) const override { return s_.specs[call_.first_in + i]; }
  const Spec& out_spec(int i) const override { return s_.specs[call_.first_in + call_.inputs + i]; }
  const Tensor& in(int i) const override { return kept(i, "input", i); }
  const Tensor& out(int i) const override {
    return kept(static_cast<int>(call_.inputs) + i, "output", i);
  }
  const Tensor& d(int i) override {
    Tensor& g = s_.gradients[call_.first_slot + i];
    if (!g) g = Tensor::zeros(out_spec(i).shape, out_spec(i).dtype);
    return g;
  }
  Tensor take_d(int i) override {
    d(i);
    Tensor& g = s_.gradients[call_.first_slot + i];
    return s_.reaches[call_.first_slot + i] == kSource ? g : std::move(g);
  }
  bool has(int i) const override { return static_cast<bool>(s_.gradients[call_.first_slot + i]); }
  bool wants(int i) const override {
    const std::uint32_t slot = s_.links[call_.first_in + i];
    return slot != SlotMap::kNone && s_.reaches[slot];
  }
  Tensor take(int i) override {
    if (!wants(i)) return {};
    return std::move(s_.gradients[s_.links[call_.first_in + i]]);
  }
  void give(int i, Tensor g) override {
    if (!wants(i) || !g) return;
    if (g.spec() != in_spec(i))
      throw Error(fmt::format("{}: the gradient of input {} is {}, expected {}", name(), i,
                              to_string(g.spec()), to_string(in_spec(i))));
    Tensor& sum = s_.gradients[s_.links[call_.first_in + i]];
    sum = sum ? add_to(std::move(sum), g) : std::move(g);
  }
  bool give_sparse(int i, const Tensor& indices, Tensor rows) override {
    if (s_.places.empty() || !wants(i)) return false;
    const Record::Storage::Place place = s_.places[s_.links[call_.first_in + i]];
    if (!place.sparse || place.reads != 1 || indices.size() > place.sparse->most) return false;
    place.sparse->indices = indices;
    place.sparse->rows = std::move(rows);
    return true;
  }

 private:
  const char* name() const { return call_.custom ? call_.custom->name() : call_.op.type().name; }
  const Tensor& kept(int k, const char* what, int i) const {
    const Tensor& t = s_.kept[call_.first_in + k];
    if (!t)
      throw Error(fmt::format("{}: its gradient reads {} {}, which needs() does not name", name(),
                              what, i));
    return t;
  }
  Record::Storage& s_;
  const Record::Call& call_;
};

}  // namespace

std::uint32_t SlotMap::find(std::uint64_t id) const {
  if (entries_.empty()) return kNone;
  const std::size_t mask = entries_.size() - 1;
  for (std::size_t i = hash(id) & mask; entries_[i].id; i = (i + 1) & mask)
    if (entries_[i].id == id) return entries_[i].slot;
  return kNone;
}

void SlotMap::insert(std::uint64_t id, std::uint32_t slot) {
  if (2 * (used_ + 1) > entries_.size()) {
    std::vector<Entry> old = std::move(entries_);
    entries_.assign(std::max<std::size_t>(64, 2 * old.size()), {});
    used_ = 0;
    for (const Entry& e : old)
      if (e.id) insert(e.id, e.slot);
  }
  const std::size_t mask = entries_.size() - 1;
  std::size_t i = hash(id) & mask;
  while (entries_[i].id && entries_[i].id != id) i = (i + 1) & mask;
  used_ -= entries_[i].id == id;
  entries_[i] = {id, slot};
  ++used_;
}

void SlotMap::clear() {
  if (used_) std::fill(entries_.begin(), entries_.end(), Entry{});
  used_ = 0;
}

Record::Owner Record::begin(bool persistent, bool watch_variables) {
  auto& spare = spare_records();
  std::unique_ptr<Record> record;
  if (spare.empty()) {
    record.reset(new Record);
    spare.reserve(kSpare);
  } else {
    record = std::move(spare.back());
    spare.pop_back();
  }
  record->persistent_ = persistent;
  record->watch_variables_ = watch_variables;
  record->used_up_ = record->failed_ = false;
  record->thread_ = std::this_thread::get_id();
  record->outer = recorders();
  recorders() = record.get();
  return Owner(record.release());
}

void RecordDrop::operator()(Record* record) const {
  std::unique_ptr<Record> owner(record);
  // Its own thread still has it in its list, and may be looking at it: better left than dangling.
  if (std::this_thread::get_id() != record->thread_) return static_cast<void>(owner.release());
  remove_recorder(*record);
  record->release();
  auto& spare = spare_records();
  if (spare.size() < kSpare) spare.push_back(std::move(owner));
}

void Record::release() {
  Storage& s = storage_;
  s.kept.clear();
  s.gradients.clear();
  s.calls.clear();
  s.links.clear();
  s.specs.clear();
  s.slots.clear();
  s.own_gradients.clear();
  s.reaches.clear();
  slot_count_ = 0;
  used_up_ = true;
}

void Record::check_usable(const char* what) const {
  if (used_up_)
    throw Error(fmt::format("{}: {}", what,
                            persistent_
                                ? "this tape was released"
                                : "this one-shot tape was used up by an earlier gradient; "
                                  "make it with {.persistent = true} to ask more than once"));
  if (std::this_thread::get_id() != thread_)
    throw Error(fmt::format("{}: a tape belongs to the thread that made it", what));
}

void Record::watch(const Tensor& x) {
  check_usable("watch");
  if (!is_float(x.dtype()))
    throw Error(
        fmt::format("watch: {} is not a floating tensor, so it has no gradient; cast it first",
                    to_string(x.spec())));
  if (storage_.slots.find(x.id()) == SlotMap::kNone) storage_.slots.insert(x.id(), slot_count_++);
}

bool Record::tracks(const Tensor& x) const {
  return storage_.slots.find(x.id()) != SlotMap::kNone ||
         (watch_variables_ && x.handle()->trainable);
}

bool Record::depends(const Tensor& y, const Tensor& x) const {
  const Storage& s = storage_;
  const std::uint32_t from = s.slots.find(x.id()), to = s.slots.find(y.id());
  if (from == SlotMap::kNone || to == SlotMap::kNone) return false;
  std::vector<bool> reached(slot_count_);
  reached[from] = true;
  for (const Call& call : s.calls) {
    bool any = false;
    for (std::uint32_t i = 0; i < call.inputs; ++i) {
      const std::uint32_t slot = s.links[call.first_in + i];
      any |= slot != SlotMap::kNone && reached[slot];
    }
    for (std::uint32_t i = 0; any && i < call.outputs; ++i) reached[call.first_slot + i] = true;
  }
  return reached[to];
}

// A tape does not record its own walk back. So that nobody takes what comes of it for a constant, it
// is known; what has no gradient, as stop_gradient, ends that.
void Record::note_own(std::span<const Tensor* const> in, std::span<const Tensor> out) {
  SlotMap& own = storage_.own_gradients;
  if (!persistent_ || own.empty()) return;
  if (std::none_of(in.begin(), in.end(),
                   [&](const Tensor* x) { return own.find(x->id()) != SlotMap::kNone; }))
    return;
  for (const Tensor& y : out) own.insert(y.id(), 0);
}

void Record::refuse_own(std::span<const Tensor* const> ys) const {
  for (const Tensor* y : ys)
    if (storage_.own_gradients.find(y->id()) != SlotMap::kNone)
      throw Error(
          "gradient: the result comes of an earlier gradient of this very tape, which does not "
          "record "
          "its own walk back; nest two tapes, so that the outer one records the inner one's "
          "gradient, "
          "or stop_gradient() what is to count as a constant");
}

std::uint32_t Record::slot_of(const Tensor& x) {
  const std::uint32_t slot = storage_.slots.find(x.id());
  if (slot != SlotMap::kNone || !watch_variables_ || !x.handle()->trainable) return slot;
  storage_.slots.insert(x.id(), slot_count_);
  return slot_count_++;
}

// Notes which slots a call reads; false, and nothing noted, where it reads none.
bool Record::link(std::span<const Tensor* const> in) {
  Storage& s = storage_;
  const std::size_t before = s.links.size();
  bool any = false;
  for (const Tensor* x : in) {
    s.links.push_back(slot_of(*x));
    any |= s.links.back() != SlotMap::kNone;
  }
  if (!any) s.links.resize(before);
  return any;
}

void Record::add_call(Call call, std::span<const Tensor* const> in, std::span<const Tensor> out,
                      Needs needs) {
  Storage& s = storage_;
  call.inputs = static_cast<std::uint32_t>(in.size());
  call.first_in = static_cast<std::uint32_t>(s.specs.size());
  call.outputs = static_cast<std::uint32_t>(out.size());
  call.first_slot = slot_count_;
  call.scope = Scope::current();
  for (std::size_t i = 0; i < in.size(); ++i) {
    s.specs.push_back(in[i]->spec());
    s.kept.push_back(i < 32 && (needs.inputs >> i & 1) ? *in[i] : Tensor());
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    s.specs.push_back(out[i].spec());
    s.kept.push_back(needs.outputs >> i & 1 ? out[i] : Tensor());
    s.slots.insert(out[i].id(), slot_count_++);
  }
  s.links.resize(s.specs.size(), SlotMap::kNone);  // keeps the three lists parallel
  s.calls.push_back(std::move(call));
}

void Record::record(const OpType& type, const void* op, std::span<const Tensor* const> in,
                    std::span<const Tensor> out) {
  if (used_up_ || !type.has_grad) return;
  note_own(in, out);
  if (!link(in)) return;
  const std::uint32_t* links = storage_.links.data() + storage_.specs.size();
  Needs needs;
  for (std::size_t i = 0; i < in.size(); ++i)
    if (links[i] != SlotMap::kNone) needs = needs | type.needs(op, static_cast<int>(i));
  add_call({AnyOp(type, op), nullptr, 0, 0, 0, 0, 0}, in, out, needs);
}

void Record::record(std::shared_ptr<const CustomGrad> rule, std::span<const Tensor* const> in,
                    std::span<const Tensor> out) {
  if (used_up_) return;
  note_own(in, out);
  if (!link(in)) return;
  add_call({AnyOp(), std::move(rule), 0, 0, 0, 0, 0}, in, out, {});
}

// A gradient may be sparse where nothing else could be added to it: its source is no result of a
// call, starts from nothing, and is read once.
void Record::place_sparse(std::span<const Tensor* const> xs, std::span<const Tensor> into,
                          std::span<SparseGradient> sparse) {
  Storage& s = storage_;
  s.places.clear();
  if (sparse.empty()) return;
  s.places.resize(slot_count_);
  for (const std::uint32_t slot : s.links)
    if (slot != SlotMap::kNone) ++s.places[slot].reads;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const std::uint32_t slot = s.slots.find(xs[i]->id());
    if (slot != SlotMap::kNone && !into[i] && !s.gradients[slot] && !s.made[slot])
      s.places[slot].sparse = &sparse[i];
  }
}

// Which slots lead to a source, and which were made by a call; what sources start from is put in place.
void Record::mark_reachable(std::span<const Tensor* const> xs, std::span<Tensor> into) {
  Storage& s = storage_;
  s.gradients.resize(slot_count_);
  s.reaches.assign(slot_count_, 0);
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const std::uint32_t slot = s.slots.find(xs[i]->id());
    if (slot == SlotMap::kNone) continue;
    s.reaches[slot] = 1;
  }
  s.made.assign(slot_count_, 0);
  for (const Call& call : s.calls) {
    std::fill_n(s.made.begin() + call.first_slot, call.outputs, std::uint8_t{1});
    bool reaches = false;
    for (std::uint32_t i = 0; i < call.inputs; ++i) {
      const std::uint32_t slot = s.links[call.first_in + i];
      reaches |= slot != SlotMap::kNone && s.reaches[slot];
    }
    // A source may itself be computed: it stays one.
    if (reaches) std::fill_n(s.reaches.begin() + call.first_slot, call.outputs, std::uint8_t{1});
  }
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const std::uint32_t slot = s.slots.find(xs[i]->id());
    // What a computed source starts from is a result, not something that flows on to its own sources.
    if (slot != SlotMap::kNone && into[i] && !s.gradients[slot] && !s.made[slot])
      s.gradients[slot] = std::move(into[i]);
  }
}

// From the last call to the first; what a call has kept is dropped when it is done, unless `keep`.
void Record::walk_calls(bool keep) {
  Storage& s = storage_;
  for (std::size_t c = s.calls.size(); c-- > 0;) {
    Call& call = s.calls[c];
    const auto first = s.gradients.begin() + call.first_slot;
    const bool flows =
        s.reaches[call.first_slot] &&
        std::any_of(first, first + call.outputs, [](const Tensor& g) { return bool(g); });
    if (flows) {
      Scope scope(call.scope);
      Step step(s, call);
      if (call.custom) {
        call.custom->grad(step);
      } else {
        call.op.type().grad(call.op.attributes(), step);
      }
    }
    for (std::uint32_t i = 0; i < call.outputs; ++i)
      if (s.reaches[call.first_slot + i] != kSource) s.gradients[call.first_slot + i] = Tensor();
    if (!keep) {
      std::fill_n(s.kept.begin() + call.first_in, call.inputs + call.outputs, Tensor());
      call.custom.reset();
    }
  }
}

void Record::walk(std::span<const Tensor* const> ys,
                  std::span<const Tensor* const> output_gradients,
                  std::span<const Tensor* const> xs, std::span<Tensor> into, bool keep,
                  std::span<SparseGradient> sparse) {
  Storage& s = storage_;
  refuse_own(ys);
  // Ops of the walk back are for outer tapes, or for nobody where recording is paused.
  bool listed = false;
  for (const Recorder* r = recorders(); r; r = r->outer) listed |= r == this;
  RecorderSwap swap(listed ? outer : recorders());
  struct Clear {
    std::vector<Tensor>& gradients;
    ~Clear() { gradients.clear(); }
  } clear{s.gradients};

  mark_reachable(xs, into);
  CategoryScope category(Category::gradients);
  for (std::size_t i = 0; i < ys.size(); ++i) {
    const std::uint32_t slot = s.slots.find(ys[i]->id());
    if (slot == SlotMap::kNone || !s.reaches[slot]) continue;
    const Tensor& given = *output_gradients[i];
    Tensor dy = given ? given : Tensor::ones(ys[i]->shape(), ys[i]->dtype());
    if (dy.spec() != ys[i]->spec())
      throw Error(fmt::format("gradient: the output gradient is {}, the result is {}",
                              to_string(dy.spec()), to_string(ys[i]->spec())));
    Tensor& sum = s.gradients[slot];
    sum = sum ? add_to(std::move(sum), dy) : std::move(dy);
  }
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const std::uint32_t slot = s.slots.find(xs[i]->id());
    if (slot != SlotMap::kNone) s.reaches[slot] = kSource;
  }
  place_sparse(xs, into, sparse);

  walk_calls(keep);
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const std::uint32_t slot = s.slots.find(xs[i]->id());
    if (slot == SlotMap::kNone || !s.gradients[slot]) continue;
    into[i] = into[i] ? add_to(std::move(into[i]), s.gradients[slot]) : s.gradients[slot];
    if (persistent_ && s.slots.find(into[i].id()) == SlotMap::kNone)
      s.own_gradients.insert(into[i].id(), 0);
  }
}

}  // namespace ebb::tape_detail
