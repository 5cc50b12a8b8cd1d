#include "ebb/trace/fuse.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "ebb/base/memory/memory.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/trace/passes.hpp"

namespace ebb::trace {
namespace {

constexpr std::int64_t kTile = 4096;          // elements: a few arrays of it stay in a core's cache
constexpr std::int64_t kLargestTile = 16384;  // where a row that cannot be cut is longer
constexpr std::size_t kMostMembers = 32, kMostInputs = 32;

using memory::aligned;

// How many leading axes of `shape` may be cut into tiles, as far as this input goes: along them it
// is as long as the result, or 1 everywhere.
int axes_to_cut(const Shape& input, const Shape& shape) {
  const int missing = shape.rank() - input.rank();
  bool along = true, beside = true;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const std::int64_t n = axis < missing ? 1 : input[axis - missing];
    along &= n == shape[axis];
    beside &= n == 1;
    if (!along && !beside) return axis;
  }
  return shape.rank();
}

std::int64_t product(const Shape& shape, int begin, int end) {
  std::int64_t n = 1;
  for (int axis = begin; axis < end; ++axis) n *= shape[axis];
  return n;
}

class Fusing {
 public:
  explicit Fusing(const Trace& trace) : trace_(trace) {}

  Trace run() {
    look();
    for (auto c = static_cast<Id>(trace_.calls.size()) - 1; c >= 0; --c) place(c);
    Trace to = trace_;
    bool any = false;
    for (std::size_t c = 0; c < trace_.calls.size(); ++c) {
      if (members_[c].size() < 2) continue;
      any = true;
      std::sort(members_[c].begin(), members_[c].end());
      to.calls[c] = joined(static_cast<Id>(c), to);
    }
    return any ? without_dead_code(to) : to;
  }

 private:
  static constexpr Id kAlways = std::numeric_limits<Id>::max();

  void look() {
    readers_.resize(trace_.values.size());
    fixed_.assign(trace_.values.size(), false);
    last_use_.assign(trace_.values.size(), kNone);
    gone_after_.assign(trace_.values.size(), kAlways);
    root_.assign(trace_.calls.size(), kNone);
    axes_.assign(trace_.calls.size(), 0);
    members_.resize(trace_.calls.size());
    Id others = 0;
    for (std::size_t c = 0; c < trace_.calls.size(); ++c) {
      const Call& call = trace_.calls[c];
      for (const Id id : call.in) readers_[id].push_back(static_cast<Id>(c));
      others_.push_back(others += !call.view && !call.op.type().elementwise);
    }
    const auto fix = [&](Id id) {
      fixed_[id] = fixed_[trace_.base_of(id)] = true;
      last_use_[trace_.base_of(id)] = kAlways;
    };
    for (const Id id : trace_.results) fix(id);
    for (const Assign& a : trace_.assigns) fix(a.value);
    for (const Id id : trace_.carry)
      if (id != kNone) fix(id);
    for (const Value& v : trace_.values)
      if (v.base != kNone) fixed_[v.base] = true;
    // What a call may overwrite in its place is not to be read by calls that come later.
    std::vector<Id> assigned_at(trace_.variables.size(), kAlways);
    for (const Assign& a : trace_.assigns) {
      const Id at = trace_.values[a.value].call;
      if (at != kNone) assigned_at[a.variable] = at;
    }
    for (std::size_t i = 0; i < trace_.values.size(); ++i) {
      const Value& v = trace_.values[i];
      if (v.kind == Kind::variable) gone_after_[i] = assigned_at[v.index];
      if (v.kind == Kind::sum_so_far && trace_.carry[v.index] != kNone)
        gone_after_[i] = trace_.values[trace_.carry[v.index]].call;
    }
  }

  const Shape& shape_of(Id call) const {
    return trace_.values[trace_.calls[call].out[0]].spec.shape;
  }
  int axes_of(Id call, const Shape& shape) const {
    int axes = shape.rank();
    for (const Id id : trace_.calls[call].in)
      axes = std::min(axes, axes_to_cut(trace_.values[id].spec.shape, shape));
    return axes;
  }
  static bool fits(const Shape& shape, int axes) {
    return product(shape, axes, shape.rank()) <= kLargestTile;
  }

  void place(Id c) {
    const Call& call = trace_.calls[c];
    Id root = c;
    if (call.op.type().elementwise && !call.view && call.in.size() <= Group::kMostOperands &&
        shape_of(c).size() > 0) {
      root = root_to_join(c);
      const int axes = axes_of(c, shape_of(c));
      axes_[root] = root == c ? axes : std::min(axes_[root], axes);
      if (fits(shape_of(c), axes)) {
        root_[c] = root;
        members_[root].push_back(c);
      }
    }
    for (const Id id : call.in) {
      Id& last = last_use_[trace_.base_of(id)];
      last = std::max(last, root);
    }
  }

  // The group all readers of this call's result are in, where the call may join it.
  Id root_to_join(Id c) const {
    const Call& call = trace_.calls[c];
    const Id out = call.out[0];
    const auto& readers = readers_[out];
    if (fixed_[out] || readers.empty()) return c;
    const Id root = root_[readers.front()];
    if (root == kNone) return c;
    for (const Id r : readers)
      if (root_[r] != root) return c;
    if (shape_of(c) != shape_of(root) || call.finish != trace_.calls[root].finish ||
        members_[root].size() == kMostMembers || inputs_with(c, root) > kMostInputs ||
        !fits(shape_of(root), std::min(axes_[root], axes_of(c, shape_of(c)))))
      return c;
    std::uint64_t longer = 0;  // bytes that would be held until the group runs, and are not now
    for (const Id id : call.in) {
      const Id base = trace_.base_of(id);
      if (gone_after_[base] < root) return c;
      if (trace_.values[base].kind == Kind::made && last_use_[base] < root)
        longer += trace_.values[base].spec.bytes();
    }
    const bool between = others_[root] > others_[c];  // calls that take memory as they like
    return between && longer > trace_.values[out].spec.bytes() ? c : root;
  }

  std::size_t inputs_with(Id c, Id root) const {
    std::vector<Id> all(trace_.calls[c].in);
    for (const Id m : members_[root])
      all.insert(all.end(), trace_.calls[m].in.begin(), trace_.calls[m].in.end());
    std::sort(all.begin(), all.end());
    return static_cast<std::size_t>(std::unique(all.begin(), all.end()) - all.begin());
  }

  // The call that takes the place of a group, whose members stand in order.
  Call joined(Id root, Trace& to) const {
    const std::vector<Id>& members = members_[root];
    const Shape& shape = shape_of(root);
    const int axes = axes_[root];
    const std::int64_t rows = product(shape, 0, axes), row = product(shape, axes, shape.rank());
    const std::int64_t tile_rows = std::clamp<std::int64_t>(kTile / row, 1, rows);
    Group g;
    g.tiles = (rows + tile_rows - 1) / tile_rows;
    const auto place = [&](const Spec& whole) {
      const bool along = as_long(whole.shape, shape, axes);
      const auto cut = [&](std::int64_t rows_here) {
        return Spec{tile_shape(whole.shape, shape, axes, along ? rows_here : 1), whole.dtype};
      };
      Group::Place p{whole, cut(tile_rows), cut(rows - (g.tiles - 1) * tile_rows)};
      if (along) p.step = p.tile.bytes();
      return p;
    };
    Call call = trace_.calls[root];
    call.in.clear();
    call.donated = -1;
    std::map<Id, Id> place_of;
    for (const Id m : members)
      for (const Id id : trace_.calls[m].in) {
        const Id by = trace_.values[id].call;
        if (by != kNone && trace_.values[id].base == kNone && root_[by] == root) continue;
        if (!place_of.try_emplace(id, static_cast<Id>(call.in.size())).second) continue;
        call.in.push_back(id);
        g.places.push_back(place(trace_.values[id].spec));
      }
    g.result = static_cast<Id>(g.places.size());
    g.places.push_back(place(trace_.values[call.out[0]].spec));
    place_of[call.out[0]] = g.result;
    for (const Id m : members) {
      const Id out = trace_.calls[m].out[0];
      if (m == root) continue;
      place_of[out] = static_cast<Id>(g.places.size());
      g.places.push_back(place(trace_.values[out].spec));
      g.places.back().step = 0;
    }
    for (const Id m : members) {
      const Call& c = trace_.calls[m];
      Group::Member member{c.op, {}, place_of.at(c.out[0])};
      std::vector<Spec> specs;
      for (const Id id : c.in) {
        member.in.push_back(place_of.at(id));
        specs.push_back(trace_.values[id].spec);
      }
      g.flops += c.op.type().cost(c.op.attributes(), specs).flops;
      g.members.push_back(std::move(member));
    }
    g.work = static_cast<double>(members.size()) * static_cast<double>(shape.size());
    lay_out(g);
    g.places.shrink_to_fit();
    g.members.shrink_to_fit();
    to.groups.push_back(std::make_shared<const Group>(std::move(g)));
    call.op = fused_op(to.groups.back().get());
    return call;
  }

  static bool as_long(const Shape& input, const Shape& shape, int axes) {
    const int missing = shape.rank() - input.rank();
    for (int axis = 0; axis < axes; ++axis)
      if (shape[axis] != (axis < missing ? 1 : input[axis - missing])) return false;
    return true;
  }

  // The leading axes become one, of so many rows.
  static Shape tile_shape(const Shape& input, const Shape& shape, int axes, std::int64_t rows) {
    std::vector<std::int64_t> dims{rows};
    const int missing = shape.rank() - input.rank();
    for (int axis = axes; axis < shape.rank(); ++axis)
      dims.push_back(axis < missing ? 1 : input[axis - missing]);
    return Shape(dims);
  }

  // A place in the scratch for what lies between, which is taken over when it was read last.
  static void lay_out(Group& g) {
    std::uint64_t slot = 64;
    std::vector<Id> last(g.places.size(), kNone), slot_of(g.places.size(), kNone), free;
    for (std::size_t m = 0; m < g.members.size(); ++m)
      for (const Id id : g.members[m].in) last[id] = static_cast<Id>(m);
    for (std::size_t i = static_cast<std::size_t>(g.result) + 1; i < g.places.size(); ++i)
      slot = std::max(slot, aligned(g.places[i].tile.bytes()));
    Id slots = 0;
    for (std::size_t m = 0; m < g.members.size(); ++m) {
      const Group::Member& member = g.members[m];
      const std::uint32_t may = member.op.type().overwrites(member.op.attributes(), 0);
      Id taken = kNone;
      for (std::size_t i = 0; i < member.in.size(); ++i) {
        Id& held = slot_of[member.in[i]];
        if (held == kNone || last[member.in[i]] != static_cast<Id>(m)) continue;
        if (member.out > g.result && taken == kNone && (may >> i & 1) &&
            g.places[member.in[i]].tile == g.places[member.out].tile)
          taken = held, held = kNone;
      }
      if (member.out > g.result) {
        if (taken == kNone && !free.empty()) taken = free.back(), free.pop_back();
        if (taken == kNone) taken = slots++;
        slot_of[member.out] = taken;
        g.places[member.out].offset = slot * static_cast<std::uint64_t>(taken);
      }
      for (const Id id : member.in) {
        if (slot_of[id] == kNone || last[id] != static_cast<Id>(m)) continue;
        free.push_back(slot_of[id]);
        slot_of[id] = kNone;
      }
    }
    g.lane = slot * static_cast<std::uint64_t>(slots);
  }

  const Trace& trace_;
  std::vector<std::vector<Id>> readers_;  // per value: calls
  std::vector<bool> fixed_;               // per value: outlives its readers, or has views
  std::vector<Id> last_use_;              // per value: the last call that reads it, groups as one
  std::vector<Id> gone_after_;            // per value: the call that may overwrite it
  std::vector<Id> others_;                // per call: those up to it that are not elementwise
  std::vector<Id> root_;                  // per call: the last call of its group
  std::vector<int> axes_;                 // per root: leading axes that are cut
  std::vector<std::vector<Id>> members_;  // per root
};

}  // namespace

Trace fused(const Trace& trace) { return Fusing(trace).run(); }

}  // namespace ebb::trace
