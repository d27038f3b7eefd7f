"""Snippets of younger languages: "@|" ends a segment at a line end, "@=|" a block too."""

SNIPPETS = {
    "dart": """\
import 'a.dart';@=|
/// Doc.@|
class A extends B {@|
  const A({
    required this.x,
  }) : super();@|
  int f(int a,
      int b) {@|
    switch (a) {@|
    }@|
  }@|
}@=|
enum E {@|
  f();@|
}@=|
""",
    "elixir": """\
    case x do@|
    else@|
    Enum.map(x, fn v ->@|
      v + 1@|
    end)
    |> Enum.sum()@|
end@=|
""",
    "kotlin": """\
/** Doc. */@|
class A(
) : B() {@|
    var z: Int = 0@|
        get() = field@|
    fun f(a: Int,
          b: Int): Int {@|
        val r = g(a,
            b) { it ->@|
        } else if (a == b)@|
        when (a) {@|
        }@|
    }@|
}@=|
enum class E {@|
    Q;@|
}@=|
""",
    "lua": """\
-- Comment.@|
local function f(p,
    q)@|
  if p then@|
  end@|
  for i = 1, 2 do@|
    print(i,
      q)@|
  end@|
  repeat@|
    m()@|
  until p@|
  return f(function()@|
  end)@|
end@=|
b = [[
]]@=|
""",
    "perl": """\
# Comment.@|
sub f {@|
    if ($x) {@|
    }@|
    else {@|
    };@|
    print <<EOT;
EOT@|
    return map { $_ + 1 }
        @_;@|
}@=|
=pod
=cut@|
1;@=|
""",
    "powershell": """\
function Get-A {@|
    begin {@|
        $a = @{
        }@|
    }@|
    process {@|
        if ($X) {@|
        }@|
        else {@|
        }@|
        $i | ForEach-Object {@|
            $_@|
        }@|
    }@|
}@=|
class P {@|
    [void] R([int]$s) {@|
    }@|
}@=|
""",
    "swift": """\
/// Doc.@|
class A: B,
    C {@|
    var y: Int {@|
    }@|
    func f(_ a: Int,
           b: Int) -> Int {@|
        guard let c = d else {@|
        }@|
        if a > b,
           c {@|
        }@|
        switch a {@|
        }@|
        do {@|
        } catch {@|
        }@|
            .map { v in@|
                v + 1@|
            }@|
    }@|
}@=|
enum E {@|
}@=|
""",
    "zig": """\
const std = @import("std");@=|
/// Doc.@|
pub const A = struct {@|
    pub fn f(self: *A,
        b: u32) !void {@|
        switch (b) {@|
        }@|
    }@|
};@=|
test "t" {@|
}@=|
""",
}
