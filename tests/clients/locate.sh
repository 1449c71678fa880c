# tests/clients/locate.sh: client_locate PACKAGE has the npm package in build/clients, installing the version that the tests
# were written for where another or none is found; 1, and the reason in client_missing, when there is none to be had.
# Sourced by tests/e2e/test_serve_clients.sh and test_serve_page.sh.

client_version()
{
    case $1 in
    openai) echo 6.49.0 ;;
    playwright-core) echo 1.65.1 ;;
    html-validate) echo 10.17.0 ;;
    esac
}

client_locate()
{
    local package=$1 version dir=build/clients
    version=$(client_version "$package")
    client_missing=
    if ! command -v node >/dev/null; then
        client_missing="node is not installed (apt-get install nodejs npm)"
        return 1
    fi
    grep -q "\"version\": \"$version\"" "$dir/node_modules/$package/package.json" 2>/dev/null && return 0
    if ! command -v npm >/dev/null; then
        client_missing="npm is not installed (apt-get install npm), and no $package@$version in $dir"
        return 1
    fi
    mkdir -p "$dir"
    echo "  installing $package@$version into $dir"
    # --no-save keeps no list, and npm would remove what it does not know of: every package is named
    if ! timeout 300 npm install --prefix "$dir" --no-audit --no-fund --ignore-scripts --no-save \
        "openai@$(client_version openai)" "playwright-core@$(client_version playwright-core)" \
        "html-validate@$(client_version html-validate)" >"$dir/install.log" 2>&1; then
        client_missing="npm cannot install $package: $(grep -m 1 -E 'code|ERR' "$dir/install.log")"
        return 1
    fi
}
