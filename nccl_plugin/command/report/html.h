// Pieces of an HTML page.
#ifndef NCCL_PLUGIN_COMMAND_REPORT_HTML_H_
#define NCCL_PLUGIN_COMMAND_REPORT_HTML_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ringpress::nccl_plugin::command::report {

/// As text and as an attribute's value in quotes, whatever it was: names come from outside. Bytes
/// that are no UTF-8 become U+FFFD; of a text longer than 200 bytes the beginning stays.
std::string html_text(std::string_view text);

/// A table in a box of its own, which scrolls where the page is too narrow. Cells are HTML.
class HtmlTable {
 public:
  /// `caption` is text. `heads`: of columns, text; the first column names the rows.
  HtmlTable(std::string_view caption, const std::vector<std::string>& heads);

  void add_row(const std::vector<std::string>& cells);
  std::size_t rows() const { return rows_; }
  std::string html() const;

 private:
  std::string head_;
  std::string body_;
  std::size_t rows_ = 0;
};

/// What opens when it is asked for. `summary` is text, `inside` HTML.
std::string html_details(std::string_view summary, const std::string& inside);

/// A paragraph of text.
std::string html_paragraph(std::string_view text);

}  // namespace ringpress::nccl_plugin::command::report

#endif  // NCCL_PLUGIN_COMMAND_REPORT_HTML_H_
