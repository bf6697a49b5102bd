#include "nccl_plugin/command/report/html.h"

#include <algorithm>

namespace ringpress::nccl_plugin::command::report {
namespace {

constexpr std::size_t kMostBytes = 200;

/// Bytes of the character that begins there; 0: it is no UTF-8.
std::size_t length_of_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  std::size_t length = 1;
  if (first >= 0xf0) {
    length = 4;
  } else if (first >= 0xe0) {
    length = 3;
  } else if (first >= 0x80) {
    length = 2;
  }
  if (first >= 0xf5 || (first >= 0x80 && first < 0xc2) || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const bool is_long = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  const bool is_surrogate = first == 0xed && byte(1) >= 0xa0;
  const bool is_above = first == 0xf4 && byte(1) >= 0x90;
  return is_long || is_surrogate || is_above ? 0 : length;
}

void append_character(char c, std::string* safe) {
  switch (c) {
    case '<':
      *safe += "&lt;";
      return;
    case '>':
      *safe += "&gt;";
      return;
    case '&':
      *safe += "&amp;";
      return;
    case '"':
      *safe += "&quot;";
      return;
    case '\'':
      *safe += "&#39;";
      return;
    default:
      *safe += static_cast<unsigned char>(c) < ' ' || c == 0x7f ? ' ' : c;
  }
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string safe;
  bool is_cut = false;
  std::size_t taken = 0;
  while (!text.empty()) {
    const std::size_t length = length_of_character(text);
    taken += length == 0 ? 1 : length;
    is_cut = taken > kMostBytes;
    if (is_cut) break;
    if (length == 0) {
      safe += "\xef\xbf\xbd";
    } else if (length == 1) {
      append_character(text[0], &safe);
    } else {
      safe += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return is_cut ? safe + "..." : safe;
}

HtmlTable::HtmlTable(std::string_view caption, const std::vector<std::string>& heads) {
  head_ = "<div class=\"box\" tabindex=\"0\" role=\"region\" aria-label=\"" + html_text(caption) +
          "\"><table><caption>" + html_text(caption) + "</caption><thead><tr>";
  for (const std::string& head : heads) head_ += "<th scope=\"col\">" + html_text(head) + "</th>";
  head_ += "</tr></thead>\n<tbody>";
}

void HtmlTable::add_row(const std::vector<std::string>& cells) {
  body_ += "<tr>";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    body_ += i == 0 ? "<th scope=\"row\">" + cells[i] + "</th>" : "<td>" + cells[i] + "</td>";
  }
  body_ += "</tr>\n";
  ++rows_;
}

std::string HtmlTable::html() const {
  return head_ + body_ + "</tbody></table></div>\n";
}

std::string html_details(std::string_view summary, const std::string& inside) {
  return "<details><summary>" + html_text(summary) + "</summary>\n" + inside + "</details>\n";
}

std::string html_paragraph(std::string_view text) {
  std::string html = "<p>";
  while (!text.empty()) {  // Paragraphs may be longer than names.
    const std::size_t space = text.size() <= 150 ? text.size() : text.rfind(' ', 150);
    const std::size_t length = space == std::string_view::npos || space == 0 ? 150 : space;
    html += html_text(text.substr(0, length));
    text.remove_prefix(std::min(length, text.size()));
  }
  return html + "</p>\n";
}

}  // namespace ringpress::nccl_plugin::command::report
