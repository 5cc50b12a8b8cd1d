#include "tests/train/checkpoint/power_loss.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"

namespace ebb::train::test {

using file_record::Kind;
using file_record::Operation;

Disk::Disk(std::string root) : root_(std::move(root)), top_(std::make_shared<Node>()) {
  top_->folder = true;
  all_.push_back(top_);
}

Disk::NodePtr Disk::name_in(const Node& folder, const std::string& name) {
  NodePtr found;
  for (const Change& c : folder.changes)
    for (const auto& [n, node] : c.names)
      if (n == name) found = node;
  return found;
}

Disk::NodePtr Disk::at(const std::string& path) const {
  if (path == root_) return top_;
  if (!path.starts_with(root_ + "/")) return nullptr;  // not on this disk
  NodePtr node = top_;
  for (std::size_t begin = root_.size() + 1; node && begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    node = name_in(*node, path.substr(begin, end - begin));
    begin = end + 1;
  }
  return node;
}

std::pair<Disk::NodePtr, std::string> Disk::place(const std::string& path) const {
  const auto slash = path.rfind('/');
  return {at(path.substr(0, slash)), path.substr(slash + 1)};
}

void Disk::change(const NodePtr& folder, Change change) {
  folder->changes.push_back(std::move(change));
  folder->times.push_back(clock_);
}

void Disk::apply(const Operation& o) {
  ++clock_;
  const auto [folder, name] = place(o.path);
  if (!folder && o.path != root_) return;
  switch (o.kind) {
    case Kind::create:
    case Kind::make_folder: {
      const auto node = std::make_shared<Node>();
      node->folder = o.kind == Kind::make_folder;
      all_.push_back(node);
      return change(folder, {{{name, node}}});
    }
    case Kind::write:
    case Kind::resize: {
      const NodePtr file = at(o.path);
      file->writes.push_back(o);
      file->times.push_back(clock_);
      return;
    }
    case Kind::sync:
    case Kind::sync_folder: {
      const NodePtr node = at(o.path);
      node->durable = node->times.size();
      return;
    }
    case Kind::move:
    case Kind::exchange: {
      const auto [other, to] = place(o.to);
      if (other != folder) throw Error("power loss: a move to another folder");
      const NodePtr from = at(o.path), old = at(o.to);
      return change(folder, {{{name, o.kind == Kind::move ? nullptr : old}, {to, from}}});
    }
    case Kind::remove:
      return change(folder, {{{name, nullptr}}});
  }
}

std::vector<std::size_t> Disk::lost_times() const {
  std::vector<std::size_t> times;
  for (const NodePtr& n : all_)
    times.insert(times.end(), n->times.begin() + static_cast<std::ptrdiff_t>(n->durable),
                 n->times.end());
  std::sort(times.begin(), times.end());
  return times;
}

std::size_t Disk::pending() const { return lost_times().size(); }

namespace {

void put(std::vector<std::byte>& content, const Operation& o, std::size_t cut) {
  if (o.kind == Kind::resize) return content.resize(o.at);
  const std::size_t bytes = o.bytes.size() - std::min(cut, o.bytes.size());
  content.resize(std::max<std::size_t>(content.size(), o.at + bytes));
  if (bytes) std::memcpy(content.data() + o.at, o.bytes.data(), bytes);
}

}  // namespace

void Disk::materialise(const std::string& to, const std::function<bool(std::size_t)>& kept,
                       std::size_t cut) const {
  const std::vector<std::size_t> lost = lost_times();
  const auto holds = [&](const Node& n, std::size_t i) {
    if (i < n.durable) return true;
    const auto found = std::lower_bound(lost.begin(), lost.end(), n.times[i]);
    return kept(static_cast<std::size_t>(found - lost.begin()));
  };
  const std::function<void(const Node&, const std::string&)> make = [&](const Node& n,
                                                                        const std::string& path) {
    if (n.folder) {
      std::filesystem::create_directory(path);
      std::map<std::string, NodePtr> names;
      for (std::size_t i = 0; i < n.changes.size(); ++i)
        if (holds(n, i))
          for (const auto& [name, node] : n.changes[i].names) names[name] = node;
      for (const auto& [name, node] : names)
        if (node) make(*node, path + "/" + name);
      return;
    }
    std::vector<std::byte> content;
    for (std::size_t i = 0; i < n.writes.size(); ++i)
      if (holds(n, i))
        put(content, n.writes[i], i >= n.durable && i + 1 == n.writes.size() ? cut : 0);
    File::create(path).write(content);
  };
  make(*top_, to);
}

}  // namespace ebb::train::test
