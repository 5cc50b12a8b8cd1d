// A Trace for people, for programs and as a picture.
#include <fmt/format.h>

#include <iterator>
#include <ostream>

#include "ebb/base/quoted.hpp"
#include "ebb/tensor/spec.hpp"
#include "ebb/trace/fuse.hpp"

namespace ebb::trace {
namespace {

std::string label(const Trace& t, Id id) {
  const Value& v = t.values[id];
  switch (v.kind) {
    case Kind::variable:
      return t.variables[v.index].name();
    case Kind::before:
      return t.before[v.index].name;
    case Kind::made:
      return fmt::format("%{}", id);
    case Kind::key:
      return "key";
    default:
      return fmt::format("{}{}", name(v.kind), v.index);
  }
}

template <class Ids, class F>
std::string joined(const Ids& ids, F&& each) {
  std::string out;
  for (const auto& id : ids) out += (out.empty() ? "" : ", ") + each(id);
  return out;
}

// Places: the inputs of the call, its result, what lies between.
std::string members(const Group& g) {
  std::string out = "[";
  for (const Group::Member& m : g.members)
    out += fmt::format("{}{{\"op\": \"{}\", \"in\": [{}], \"out\": {}}}",
                       out.size() > 1 ? ", " : "", m.op.type().name,
                       joined(m.in, [](Id id) { return std::to_string(id); }), m.out);
  return out + "]";
}

}  // namespace

const char* name(Kind kind) {
  constexpr const char* kNames[] = {"input", "variable",   "constant", "before",
                                    "key",   "sum_so_far", "made"};
  return kNames[static_cast<int>(kind)];
}

bool Trace::operator==(const Trace& o) const {
  if (values != o.values || calls != o.calls || inputs != o.inputs || variables != o.variables ||
      results != o.results || assigns != o.assigns || carry != o.carry || starts != o.starts ||
      constants.size() != o.constants.size())
    return false;
  for (std::size_t i = 0; i < constants.size(); ++i)
    if (std::memcmp(constants[i].raw(), o.constants[i].raw(), constants[i].spec().bytes()) != 0)
      return false;
  return true;
}

std::string to_string(const Trace& t) {
  std::string out;
  auto to = std::back_inserter(out);
  for (const Call& c : t.calls) {
    const auto named = [&](Id id) { return label(t, id); };
    const auto typed = [&](Id id) { return label(t, id) + ": " + to_string(t.values[id].spec); };
    fmt::format_to(to, "{} = {}({})", joined(c.out, typed), title(c), joined(c.in, named));
    if (c.view) out += "  view";
    if (c.finish) out += "  once";
    if (c.scope) fmt::format_to(to, "  # {}", Scope::path(c.scope));
    out += '\n';
  }
  for (const Assign& a : t.assigns)
    fmt::format_to(to, "{} <- {}\n", t.variables[a.variable].name(), label(t, a.value));
  if (!t.results.empty())
    fmt::format_to(to, "return {}\n", joined(t.results, [&](Id id) { return label(t, id); }));
  return out;
}

std::string to_json(const Trace& t) {
  const auto number = [](Id id) { return std::to_string(id); };
  std::string out = "{\"values\": [";
  for (std::size_t i = 0; i < t.values.size(); ++i) {
    const Value& v = t.values[i];
    out += fmt::format(
        "{}\n  {{\"id\": {}, \"name\": {}, \"kind\": \"{}\", \"spec\": {}, \"bytes\": {}, "
        "\"category\": \"{}\"",
        i ? "," : "", i, quoted(label(t, static_cast<Id>(i))), name(v.kind),
        quoted(to_string(v.spec)), v.spec.bytes(), name(v.category));
    if (v.base != kNone) out += fmt::format(", \"base\": {}, \"offset\": {}", v.base, v.offset);
    out += '}';
  }
  out += "],\n\"calls\": [";
  for (std::size_t i = 0; i < t.calls.size(); ++i) {
    const Call& c = t.calls[i];
    out += fmt::format(
        "{}\n  {{\"op\": \"{}\", \"in\": [{}], \"out\": [{}], \"scope\": {}, "
        "\"view\": {}, \"once\": {}",
        i ? "," : "", c.op.type().name, joined(c.in, number), joined(c.out, number),
        quoted(Scope::path(c.scope)), c.view, c.finish);
    if (const Group* g = group_of(c)) out += ", \"fused\": " + members(*g);
    out += '}';
  }
  out += fmt::format("],\n\"results\": [{}],\n\"assigns\": [", joined(t.results, number));
  for (std::size_t i = 0; i < t.assigns.size(); ++i)
    out += fmt::format("{}{{\"variable\": {}, \"value\": {}}}", i ? ", " : "",
                       quoted(t.variables[t.assigns[i].variable].name()), t.assigns[i].value);
  return out + "]}\n";
}

std::string to_dot(const Trace& t) {
  std::string out = "digraph trace {\n  rankdir=TB; node [shape=box, fontname=\"monospace\"];\n";
  for (std::size_t i = 0; i < t.values.size(); ++i)
    if (t.values[i].call == kNone)
      out += fmt::format("  v{} [label={}, shape=ellipse];\n", i,
                         quoted(label(t, static_cast<Id>(i)) + " " + to_string(t.values[i].spec)));
  for (std::size_t c = 0; c < t.calls.size(); ++c) {
    const Call& call = t.calls[c];
    out += fmt::format(
        "  c{} [label={}{}];\n", c,
        quoted(fmt::format("{} {}", title(call), to_string(t.values[call.out[0]].spec))),
        call.finish ? ", style=dashed" : "");
    for (const Id id : call.in) {
      const Id from = t.values[id].call;
      out += from == kNone ? fmt::format("  v{} -> c{};\n", id, c)
                           : fmt::format("  c{} -> c{};\n", from, c);
    }
  }
  return out + "}\n";
}

std::ostream& operator<<(std::ostream& out, const Trace& t) { return out << to_string(t); }

}  // namespace ebb::trace
