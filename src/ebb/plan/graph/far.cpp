#include "ebb/plan/graph/far.hpp"

#include <algorithm>

#include "ebb/kernels/grain.hpp"
#include "ebb/trace/gradient_blocks.hpp"

namespace ebb::plan {
namespace {

using trace::Call;
using trace::Kind;
using trace::Trace;

// Places in memory, and which of them a cache holds: those used last, as many as fit.
class SharedCache {
 public:
  explicit SharedCache(double bytes) : left_(bytes) {}

  Id add(double bytes) {
    places_.push_back({bytes});
    return static_cast<Id>(places_.size()) - 1;
  }
  bool holds(Id p) const { return places_[p].held; }
  double bytes(Id p) const { return places_[p].bytes; }

  void use(Id p) {
    drop(p);
    Place& place = places_[p];
    place.held = true;
    place.older = newest_;
    (newest_ == kNone ? oldest_ : places_[newest_].newer) = p;
    newest_ = p;
    left_ -= place.bytes;
    while (left_ < 0) drop(oldest_);
  }
  void drop(Id p) {
    Place& place = places_[p];
    if (!place.held) return;
    (place.older == kNone ? oldest_ : places_[place.older].newer) = place.newer;
    (place.newer == kNone ? newest_ : places_[place.newer].older) = place.older;
    left_ += place.bytes;
    place = {place.bytes};
  }
  void shrink(Id p, double by) {
    places_[p].bytes -= by;
    if (places_[p].held) left_ += by;
  }

 private:
  struct Place {
    double bytes = 0;
    bool held = false;
    Id older = kNone, newer = kNone;
  };
  std::vector<Place> places_;
  Id newest_ = kNone, oldest_ = kNone;
  double left_;
};

class Walk {
 public:
  Walk(const Trace& trace, const std::vector<Id>& buffer_of, double cache)
      : trace_(trace), buffer_of_(buffer_of), cache_(cache) {
    const Id buffers = buffer_of.empty() ? 0 : *std::ranges::max_element(buffer_of) + 1;
    bytes_.assign(static_cast<std::size_t>(buffers), 0);
    made_.assign(bytes_.size(), true);
    last_use_.assign(bytes_.size(), kNone);
    place_.assign(bytes_.size(), kNone);
    for (std::size_t i = 0; i < trace.values.size(); ++i) {
      const trace::Value& v = trace.values[i];
      const Id b = buffer_of[i];
      if (v.base != trace::kNone || b == kNone) continue;
      bytes_[b] = std::max(bytes_[b], static_cast<double>(v.spec.bytes()));
      if (v.kind != Kind::made) made_[b] = false;
    }
    for (std::size_t c = 0; c < trace.calls.size(); ++c)
      for (const auto* list : {&trace.calls[c].in, &trace.calls[c].out})
        for (const Id id : *list) last_use_[buffer_of[id]] = static_cast<Id>(c);
    for (std::size_t b = 0; b < made_.size(); ++b)
      if (!made_[b]) place_[b] = cache_.add(bytes_[b]);
  }

  void step(std::vector<double>& parts) {
    for (std::size_t c = 0; c < trace_.calls.size(); ++c)
      if (!trace_.calls[c].view) parts[c] = call(static_cast<Id>(c));
  }

 private:
  double call(Id c) {
    const Call& call = trace_.calls[c];
    double most = 0;
    for (const ops::Cost& cost : costs_of(trace_, call)) most += cost.bytes / 2;
    double all = 0, far = 0;
    const auto count = [&](Id id, bool is_far) {
      // Of a table only some rows are read, and what is made of them is as large.
      const double bytes = std::min(static_cast<double>(trace_.values[id].spec.bytes()), most);
      all += bytes;
      if (is_far) far += bytes;
    };
    for (const Id id : call.in) count(id, !cache_.holds(place_of(id)));
    for (std::size_t o = 0; o < call.out.size(); ++o)
      count(call.out[o], !finds_its_place(call, c, static_cast<int>(o)));
    for (const Id id : call.in) cache_.use(place_of(id));
    for (const Id id : call.out) {
      const Id b = buffer_of_[id];
      cache_.use(place_[b]);
      // Kernels write results of that size past the caches.
      if (made_[b] && kernels::worth_streaming(nullptr, trace_.values[id].spec.bytes(), 1))
        cache_.drop(place_[b]);
    }
    end(call, c);
    return all > 0 ? far / all : 0;
  }

  Id place_of(Id value) {
    Id& place = place_[buffer_of_[value]];
    if (place == kNone) place = cache_.add(bytes_[buffer_of_[value]]);  // of no call: never written
    return place;
  }

  // Whether the cache holds where a result lies: its own bytes, those of an input that it takes over, or
  // what others have left.
  bool finds_its_place(const Call& call, Id c, int output) {
    const Id b = buffer_of_[call.out[static_cast<std::size_t>(output)]];
    if (place_[b] != kNone) return cache_.holds(place_[b]);
    const std::uint32_t may = call.op.type().overwrites(call.op.attributes(), output);
    for (std::size_t i = 0; i < call.in.size() && i < 32; ++i) {
      const Id from = buffer_of_[call.in[i]];
      if (!(may >> i & 1) || !ends(from, c) || is_taken(from) || bytes_[from] != bytes_[b])
        continue;
      taken_.push_back(from);
      place_[b] = place_[from];
      return cache_.holds(place_[b]);
    }
    return take_free(b);
  }

  bool take_free(Id b) {
    double missing = bytes_[b];
    bool held = true;
    while (missing > 0 && !free_.empty()) {
      const Id p = free_.back();
      const double taken = std::min(missing, cache_.bytes(p));
      held &= cache_.holds(p);
      cache_.shrink(p, taken);
      missing -= taken;
      if (cache_.bytes(p) > 0) break;
      cache_.drop(p);
      free_.pop_back();
    }
    place_[b] = cache_.add(bytes_[b]);
    return held && missing <= 0;
  }

  bool ends(Id b, Id c) const { return made_[b] && last_use_[b] == c && place_[b] != kNone; }
  bool is_taken(Id b) const { return std::ranges::find(taken_, b) != taken_.end(); }

  void end(const Call& call, Id c) {
    for (const auto* list : {&call.in, &call.out})
      for (const Id id : *list) {
        const Id b = buffer_of_[id];
        if (!ends(b, c)) continue;
        if (!is_taken(b)) free_.push_back(place_[b]);
        place_[b] = kNone;
      }
    taken_.clear();
  }

  const Trace& trace_;
  const std::vector<Id>& buffer_of_;
  SharedCache cache_;
  // Per buffer: its bytes, whether calls of the step make it, the last call that uses it, and where it lies.
  std::vector<double> bytes_;
  std::vector<bool> made_;
  std::vector<Id> last_use_, place_;
  std::vector<Id> taken_;  // buffers whose places results of this call take over
  std::vector<Id> free_;   // places that nothing lies in, the one given up last at the end
};

}  // namespace

std::vector<ops::Cost> costs_of(const Trace& trace, const Call& call) {
  if (const trace::GradientBlocks* blocks = trace::gradient_blocks_of(call)) return blocks->costs;
  std::vector<Spec> specs;
  for (const Id id : call.in) specs.push_back(trace.values[id].spec);
  return {call.op.type().cost(call.op.attributes(), specs)};
}

std::vector<double> far_parts(const Trace& trace, const std::vector<Id>& buffer_of, double cache) {
  std::vector<double> parts(trace.calls.size());
  Walk walk(trace, buffer_of, cache);
  walk.step(parts);
  walk.step(parts);
  return parts;
}

}  // namespace ebb::plan
